import json
import math
from dataclasses import replace

import pytest
from torch import nn

from sigmascope.core.records import Estimate, Profile, Reading
from sigmascope.diagnosis import Diagnosis, Program
from sigmascope.diagnosis.cures import Cure, Cures
from sigmascope.diagnosis.presentation import SCHEMA
from sigmascope.report import json_form

jsonschema = pytest.importorskip("jsonschema")


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def through_strict_json(form):
    return json.loads(json.dumps(form, allow_nan=False), parse_constant=refuse)


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


def test_a_profile_is_valid(validator, profile, findings):
    validator.validate(through_strict_json(json_form(profile, findings)))


def test_hostile_names_are_valid_and_kept(validator, hostile, hostile_findings):
    form = through_strict_json(json_form(hostile, hostile_findings))
    validator.validate(form)
    assert [s["site"] for s in form["layers"]] == [s.site for s in hostile.layers]


def test_the_kind_of_a_form_stands_first(profile, findings):
    assert next(iter(json_form(profile, findings))) == "schema"


def test_an_empty_profile_is_valid(validator):
    validator.validate(through_strict_json(json_form(Profile(readings=()), ())))


def test_numbers_are_kept_whole_and_infinities_are_words(validator):
    estimate = Estimate(1 / 3, -math.inf, math.inf, "free", 1e-9)
    reading = Reading("fc", "condition number", estimate, "weights", "matrix")
    form = through_strict_json(json_form(Profile(readings=(reading,)), ()))
    validator.validate(form)
    (row,) = form["readings"]
    assert (float(row["value"]), float(row["low"]), float(row["high"]), row["risk"]) == (
        1 / 3,
        -math.inf,
        math.inf,
        1e-9,
    )
    assert row["high"] == "Infinity"


def test_the_schema_has_teeth(validator, profile, findings):
    whole = json_form(profile, findings)
    form = {k: v[:2] if isinstance(v, list) else v for k, v in whole.items()}
    assert validator.is_valid(form)
    for name in form:
        assert not validator.is_valid({k: v for k, v in form.items() if k != name})
    assert not validator.is_valid({**form, "schema": "sigmascope/profile/1"})
    broken = {**form["readings"][0], "value": "large"}
    assert not validator.is_valid({**form, "readings": [broken]})


def test_spectra_are_whole(profile, findings):
    form = json_form(profile, findings)
    assert form["spectra"][0]["sigma"] == profile.spectra[0].spectrum.sigma.tolist()
    assert form["spectra"][0]["rows"] == 256


def test_about_and_coverage_are_there(profile, findings):
    form = json_form(replace(profile, skipped=()), findings)
    assert form["about"]["mode"] == "eval"
    assert form["coverage"]["says"].endswith("nothing left out.")


def test_a_diagnosis_has_the_form_of_its_profile_with_its_findings(profile, findings):
    form = through_strict_json(json_form(Diagnosis(profile, findings, "sgd at 0.1")))
    assert form == through_strict_json(json_form(profile, findings))
    assert [f["name"] for f in form["findings"]] == [f.name for f in findings]


def test_what_follows_names_its_cause(validator, findings):
    under = replace(findings[1], follows=findings[0].name)
    form = through_strict_json(json_form(Diagnosis(Profile(()), (findings[0], under))))
    validator.validate(form)
    assert [f["follows"] for f in form["findings"]] == ["", findings[0].name]


@pytest.fixture(scope="module")
def cures():
    program = Program(nn.Linear(2, 2), data=None)
    first = Cure("scale", "unscaled-inputs", ("x = x / 255",), program, 0.25, 0.9, 40)
    second = replace(first, name="rate", before=math.nan, after=0.5)
    return Cures((first, second), {"norm": "there is no activation"})


def test_cures_stand_in_their_order_with_their_lines(cures):
    form = through_strict_json(json_form(cures))
    assert form["schema"] == "sigmascope/cures/1"
    assert form["tried"][0] == {
        "name": "scale",
        "cause": "unscaled-inputs",
        "patch": ["x = x / 255"],
        "diff": "",
        "before": 0.25,
        "after": 0.9,
        "steps": 40,
        "others": None,
    }
    assert form["declined"] == {"norm": "there is no activation"}


def test_a_score_that_there_was_not_is_null(cures):
    assert json_form(cures)["tried"][1]["before"] is None
    assert json_form(Cures((), {})) == {
        "schema": "sigmascope/cures/1",
        "tried": [],
        "declined": {},
    }


def test_cures_stand_beside_the_diagnosis(profile, findings, cures):
    found = Diagnosis(profile, findings)
    form = through_strict_json(json_form(found, cures))
    assert form.pop("cures") == through_strict_json(json_form(cures))
    assert form == through_strict_json(json_form(found))
