"""Every field of every record through JSON, run file and data frame, whatever fields there are.

Samples are made from the types of the fields, each value different from all others and from every
default, so that a field of tomorrow is tested as soon as it is declared.
"""

import dataclasses
import json
from collections.abc import Mapping
from itertools import count
from typing import get_args, get_origin, get_type_hints

import pytest
import torch

from sigmascope.core.encoding import built, columns, encoded, wide
from sigmascope.core.records import (
    Assumption,
    Check,
    Estimate,
    Finding,
    Layer,
    Profile,
    Reading,
    SiteSpectrum,
    Skipped,
)
from sigmascope.core.store import Run
from sigmascope.diagnosis.presentation import SCHEMA
from sigmascope.report import json_form, table
from sigmascope.theory.presentation import Checks
from tests.made_results import made, sample

jsonschema = pytest.importorskip("jsonschema")
KINDS = (Estimate, Reading, Layer, Skipped, Assumption, Check, Finding, SiteSpectrum)
NOT_IN_JSON = {"views"}  # said by what they leave out, under `coverage`


def same(before, after, name=""):
    """Fail at the first field of `before` that `after` has otherwise, by its name."""
    if dataclasses.is_dataclass(before):
        assert type(before) is type(after), name
        for field in dataclasses.fields(before):
            inside = f"{type(before).__name__}.{field.name}"
            same(getattr(before, field.name), getattr(after, field.name), inside)
    elif isinstance(before, tuple):
        assert len(before) == len(after), name
        for one, other in zip(before, after, strict=True):
            same(one, other, name)
    elif isinstance(before, torch.Tensor):
        assert before.tolist() == after.tolist(), name
    else:
        assert before == after, name


@pytest.fixture
def profile():
    return made(Profile)


@pytest.fixture
def findings():
    return sample(tuple[Finding, ...], count(1000))


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_comes_back_from_json(kind):
    before = made(kind)
    same(before, built(kind, json.loads(json.dumps(encoded(before), allow_nan=False))))


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_fields_of_a_sample_are_alike(kind):
    cells = [repr(cell) for cell in encoded(made(kind)).values()]
    assert len(set(cells)) == len(cells)


def test_every_field_of_a_profile_and_its_findings_is_in_the_json_form(profile, findings):
    form = json.loads(json.dumps(json_form(profile, findings), allow_nan=False))
    for field, hint in get_type_hints(Profile).items():
        if field in NOT_IN_JSON:
            continue
        if get_origin(hint) is Mapping:
            assert form[field] == dict(getattr(profile, field))
            continue
        (kind, _), before = get_args(hint), getattr(profile, field)
        same(before, tuple(built(kind, row) for row in form[field]), field)
    same(findings, tuple(built(Finding, row) for row in form["findings"]))


def test_the_schema_has_every_field_and_the_form_is_valid(profile, findings):
    named = SCHEMA["$defs"]
    for kind, name in ((Reading, "reading"), (Check, "check"), (SiteSpectrum, "spectrum")):
        assert {c.name for c in columns(kind)} == set(named[name]["properties"]) - {"depth"}
    form = json.loads(json.dumps(json_form(profile, findings)))
    jsonschema.Draft202012Validator(SCHEMA).validate(form)


def test_every_field_comes_back_from_a_run_file(tmp_path, profile, findings):
    with Run(tmp_path / "a.run") as run:
        run.add_profile(profile, findings, step=7)
        for field in get_type_hints(Profile):
            rows = list(getattr(run, field)())
            assert {row.step for row in rows} == {7}
            if field == "about":
                assert {row.name: row.value for row in rows} == dict(profile.about)
            elif field == "views":
                assert tuple(row.view for row in rows) == profile.views
            else:
                same(getattr(profile, field), tuple(row.record for row in rows), field)
        same(findings, tuple(row.record for row in run.findings()))


def test_what_came_out_of_a_run_file_can_go_into_another(tmp_path, profile, findings):
    with Run(tmp_path / "a.run") as first, Run(tmp_path / "b.run") as second:
        first.add_profile(profile, findings)
        second.add(step=1, findings=first.findings(), checks=first.checks())
        same(findings, tuple(row.record for row in second.findings()))
        same(profile.checks, tuple(row.record for row in second.checks()))


@pytest.mark.parametrize("kind", [Reading, Check])
def test_every_field_is_a_column_of_a_data_frame(kind, profile):
    pandas = pytest.importorskip("pandas")
    rows = profile.readings if kind is Reading else profile.checks
    frame = (profile if kind is Reading else rows[0]).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    for column in wide(kind):
        assert frame[column.name][0] == column.of(rows[0]), column.name
    flat = {cell for value in encoded(rows[0]).values() for cell in _leaves(value)}
    assert flat - {"Infinity"} <= {c for name in frame for c in _leaves(frame[name][0])}


def _leaves(value):
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    if dataclasses.is_dataclass(value):
        return _leaves(encoded(value))
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def test_checks_are_one_table(profile):
    found = table(Checks(profile.checks))
    assert found["theorem"] == [c.theorem for c in profile.checks]
    assert found["measured_high"] == [c.measured.high for c in profile.checks]
