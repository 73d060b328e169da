"""The page of `widths`."""

import json
import re
from dataclasses import replace
from html import escape

import pytest

from sigmascope.core.records import Estimate
from sigmascope.diagnosis.scaling import widths_page
from tests.diagnosis.scaling.test_presentation import deep, found

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


@pytest.mark.parametrize("shift", [0.0, -1.5, 4.0])
def test_the_picture_of_an_exponent_stands_where_its_numbers_say(found, shift, tmp_path):
    """From -2 at its left end to 2 at its right one; what is beyond stands at the end."""
    moved = lambda law: replace(law, exponent=law.exponent + Estimate.exactly(shift))
    weights = (replace(w, laws={n: moved(law) for n, law in w.laws.items()}) for w in found.weights)
    text = widths_page(replace(found, weights=tuple(weights)), tmp_path / "page.html").read_text()
    number = r"([+−][\d.]+)"
    row = re.compile(
        rf">{number} \[{number}, {number}\]</td><td[^>]*><svg width=\"(\d+)\".*?</svg>", re.DOTALL
    )
    pictures = [*row.finditer(text)]
    assert len(pictures) == len(found.weights)
    for picture in pictures:
        *said, wide = (float(part.replace("−", "-")) for part in picture.groups())
        value, low, high = (wide / 2 + wide / 4 * min(max(power, -2), 2) for power in said)
        middle, line = re.findall(r'x1="([\d.]+)" x2="([\d.]+)"', picture.group())
        assert [*map(float, middle)] == [wide / 2] * 2
        assert [*map(float, line)] == pytest.approx([low, high], abs=0.4)
        assert float(re.findall(r'cx="([\d.]+)"', picture.group())[0]) == pytest.approx(
            value, abs=0.4
        )
