"""Scans as figures: each matrix at its block, kinds apart."""

import pytest
import torch
from safetensors.torch import save_file

from sigmascope.core.guard import Refusal
from sigmascope.scanning import scan


@pytest.fixture(scope="module")
def scanned(tmp_path_factory):
    generator = torch.Generator().manual_seed(0)
    names = [f"h.{i}.{part}.weight" for i in range(3) for part in ("attn.q_proj", "mlp.up_proj")]
    place = tmp_path_factory.mktemp("figures") / "model.safetensors"
    save_file({name: torch.randn(24, 16, generator=generator) for name in names}, place)
    return scan(place)


def test_every_matrix_is_drawn_at_its_block(scanned):
    figure = scanned.plot(quantities="stable rank")
    (ax,) = figure.axes
    drawn = sorted(y for each in ax.lines for y in each.get_ydata())
    assert drawn == pytest.approx(sorted(r.estimate.value for r in scanned.series("stable rank")))
    assert {x for each in ax.lines for x in each.get_xdata()} == {0, 1, 2}
    assert len(scanned.plot().axes) > 3


def test_a_plan_shows_how_large_the_matrices_are(scanned):
    ax = scanned.plan.plot().axes[0]
    assert {y for each in ax.lines for y in each.get_ydata()} == {24 * 16}


def test_what_was_not_read_is_refused_with_what_was(scanned):
    with pytest.raises(Refusal, match=r"Did you mean `stable rank`.*There are"):
        scanned.plot(quantities="stable ranks")
