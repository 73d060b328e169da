"""The page of `widths`."""

import json
import math
import re
from dataclasses import replace
from html import escape

import pytest

from sigmascope.core.records import Estimate
from sigmascope.diagnosis.scaling import widths_page
from sigmascope.diagnosis.scaling.rates import BestRate
from sigmascope.report.pages import compact
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
    assert line["power"] == f"{odd.verdict}: power {compact(line['law'][0], digits=3)}"


def test_the_worst_line_is_chosen_and_broken_rates_hide_no_other(found, tmp_path):
    """The first that stands in the way; losses up to five times the way to the middle one."""
    curve = {0.5: 2.0, 1.0: 1.0, 2.0: 3.0, 4.0: 1e9, 8.0: math.inf}
    rate = BestRate(32, Estimate.exactly(1), 1.0, 0.0, 1, curve)
    verdicts = ("maximal", "cannot be told", "lazy", "exploding")
    weights = tuple(
        replace(found.weights[0], name=f"w{i}", verdict=v) for i, v in enumerate(verdicts)
    )
    text = widths_page(
        replace(found, weights=weights, best=(rate, replace(rate, width=256))), tmp_path / "a.html"
    ).read_text()
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["chosen"] == 2
    assert data["most"] == 1 + 4 * (3 - 1)
    assert '--tone: var(--c0)">width 32</span>' in text
    calm = widths_page(
        replace(found, weights=weights[:2], best=()), tmp_path / "b.html"
    ).read_text()
    data = json.loads(calm.split('id="data">')[1].split("</script>")[0])
    assert (data["chosen"], data["most"]) == (0, 0.0)


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
