import json
import math
from dataclasses import replace

import pytest

from sigmascope.records import Estimate
from sigmascope.report import json_form
from sigmascope.scanning.presentation import SCAN_SCHEMA, matrix_form
from tests.report.made_scans import findings, plan, scan

jsonschema = pytest.importorskip("jsonschema")
VALIDATOR = jsonschema.Draft202012Validator(SCAN_SCHEMA)


def through_json(form):
    return json.loads(json.dumps(form, allow_nan=False))


@pytest.mark.parametrize("hostile", [False, True])
def test_a_scan_is_valid_json_by_its_schema(hostile):
    found = scan(3, against=True, hostile=hostile)
    form = through_json(json_form(found, findings(found)))
    VALIDATOR.validate(form)
    assert next(iter(form)) == "schema"
    assert form["schema"] == "sigmascope/scan/2"
    assert [f["name"] for f in form["findings"]] == ["outlying-norm", "unbalanced", "old-format"]
    assert [m["site"] for m in form["plan"]["matrices"]] == [m.site for m in found.matrices]
    assert form["plan"]["matrices"][0]["depth"] == -1
    assert len(form["readings"]) == len(found.readings)
    assert "spectra" not in form


def test_numbers_that_json_lacks_are_words():
    found = scan(2)
    odd = replace(found.readings[0], estimate=Estimate(1.0, 0.0, math.inf, "free"))
    form = through_json(json_form(replace(found, readings=(odd,), spectra=())))
    VALIDATOR.validate(form)
    assert form["readings"][0]["high"] == "Infinity"
    assert form["findings"] == []


def test_a_field_that_is_not_in_the_schema_is_refused():
    form = json_form(scan(1))
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**form, "more": 1})


def test_a_plan_has_every_field_of_the_record():
    planned = plan(2)
    form = through_json(json_form(planned))
    assert form["schema"] == "sigmascope/scan-plan/1"
    assert form["seconds"] == planned.seconds
    assert form["memory"] == planned.memory
    assert [s["why"] for s in form["skipped"]] == [s.why for s in planned.skipped]
    assert form["matrices"][3]["tensors"] == list(planned.matrices[3].tensors)


def test_a_matrix_is_one_line_with_what_was_read_and_what_was_not():
    found = scan(2)
    matrix = found.matrices[0]
    readings = [r for r in found.readings if r.site == matrix.site]
    skipped = [s for s in found.skipped if s.site == matrix.site]
    line = json.dumps(matrix_form(matrix, readings, skipped), allow_nan=False)
    assert "\n" not in line
    form = json.loads(line)
    assert form["schema"] == "sigmascope/scan-matrix/1"
    assert (form["site"], form["kind"], form["rows"]) == (matrix.site, matrix.kind, matrix.rows)
    assert form["readings"][0]["value"] == readings[0].estimate.value
    assert form["skipped"][0]["why"] == skipped[0].why
