import json
import math
from dataclasses import replace

import pytest

from sigmascope.records import Estimate, Profile, Reading
from sigmascope.report import SCHEMA, json_form

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
    form = json_form(profile, findings)
    for name in form:
        assert not validator.is_valid({k: v for k, v in form.items() if k != name})
    assert not validator.is_valid({**form, "schema": "sigmascope/profile/2"})
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
