"""The page of `widths`."""

import json
from dataclasses import replace
from html import escape

import pytest

from sigmascope.scaling import widths_page
from tests.scaling.test_presentation import deep, found

__all__ = ["deep", "found"]  # fixtures


@pytest.mark.parametrize("name", ["found", "deep"])
def test_the_page_has_all_of_it_and_acts_on_no_name(name, request, tmp_path):
    result = request.getfixturevalue(name)
    odd = replace(result.weights[0], name="<script>alert(1)</script>")
    result = replace(result, weights=(odd, *result.weights[1:]))
    text = widths_page(result, tmp_path / "page.html").read_text()
    assert "<script>alert" not in text
    assert "\\u003cscript" in text or "&lt;script" in text
    for weight in result.weights[1:]:
        assert weight.name in text
        assert weight.verdict in text
    for obstacle in result.obstacles:
        assert escape(obstacle.cure) in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["sizes"] == list(result.widths)
    assert len(data["lines"]) == sum(bool(w.curve) for w in result.weights)
    line = data["lines"][0]
    assert line["law"][1] <= line["law"][0] <= line["law"][2]
