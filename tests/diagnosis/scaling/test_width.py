"""Mistakes that are drawn: one power of width in one place of one network of a family."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from sigmascope.diagnosis.scaling import widths

BASE = 32
SIZES = (32, 64, 128, 256)
ACTS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


def task():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 16, generator=g)
    return x, (x @ torch.randn(16, 5, generator=g)).argmax(1)


@st.composite
def networks(draw):
    """How many hidden layers, which activation, norms, and how it is trained."""
    return {
        "hidden": draw(st.integers(1, 2)),
        "act": draw(st.sampled_from(sorted(ACTS))),
        "norm": draw(st.booleans()),
        "optimizer": draw(st.sampled_from(["adam", "sgd", "signs"])),
    }


@st.composite
def mistakes(draw):
    """Where, what, and by which power of width."""
    what = draw(st.sampled_from(["initial", "rate"]))
    return draw(st.sampled_from(["first", "hidden", "last"])), what, draw(st.sampled_from([-1, 1]))


def maker(how, mistake=None):
    """The maximal parametrisation by its table, with one thing changed."""

    def make(n):
        r, layers = n / BASE, [nn.Linear(16, n), ACTS[how["act"]]()]
        for _ in range(how["hidden"]):
            norm = [nn.LayerNorm(n)] if how["norm"] else []
            layers += [nn.Linear(n, n), *norm, ACTS[how["act"]]()]
        model = nn.Sequential(*layers, nn.Linear(n, 5))
        plain = how["optimizer"] == "sgd"
        groups = []
        ends = [*model.named_parameters()]
        places = {"first": "0.weight", "hidden": "2.weight", "last": ends[-2][0]}
        for name, p in ends:
            last = name == places["last"]
            both = p.ndim > 1 and min(p.shape) >= BASE
            rate = (-1.0 if last else 0.0 if both or len(p) == 5 else 1.0) if plain else (
                -1.0 if last or both else 0.0
            )  # fmt: skip
            scale = -0.5 if last else 0.0
            if mistake is not None and places[mistake[0]] == name:
                _, what, sign = mistake
                scale += 0.5 * sign if what == "initial" else 0.0
                rate += sign if what == "rate" else 0.0
            with torch.no_grad():
                p.mul_(r**scale)
            groups.append({"params": [p], "lr": (0.1 if plain else 3e-3) * r**rate})
        kinds = {"adam": lambda g: torch.optim.Adam(g, eps=1e-12), "sgd": torch.optim.SGD}
        kinds["signs"] = lambda g: torch.optim.Adam(g, eps=1e-12, betas=(0.0, 0.999))
        return model, kinds[how["optimizer"]](groups)

    return make, {"first": "0.weight", "hidden": "2.weight"}


def test_powers_of_width_that_are_built_in_are_read_off():
    """Frames of n times the power 0.3 write what the next layer reads, and it adds a power 0.5."""

    def make(n):
        first, second = nn.Linear(16, n, bias=False), nn.Linear(n, n, bias=False)
        for layer, size in ((first, n**0.8), (second, n**0.5)):
            nn.init.orthogonal_(layer.weight, gain=size)
        return nn.Sequential(first, second, nn.Linear(n, 5))

    found = widths(make, SIZES, task(), optimizer="sgd", lr=1e-6, steps=1, seeds=1, batch_size=64)
    first, second = found.weights[:2]
    powers = {name: law.exponent.value for name, law in second.laws.items()}
    assert first.laws["written"].exponent.value == pytest.approx(0.3, abs=1e-5)
    assert powers["read"] == pytest.approx(0.3, abs=1e-5)
    assert powers["written"] == pytest.approx(0.8, abs=1e-5)
    assert powers["forward"] == pytest.approx(0.5, abs=1e-5)


def found_by(make):
    return widths(make, SIZES, task(), loss="cross_entropy", steps=1, seeds=3, batch_size=64)


def check(how, mistake):
    make, names = maker(how, mistake)
    found = found_by(make)
    if not found.obstacles:  # it may not be told, and then that is said
        assert any(w.verdict != "maximal" for w in found.weights)
        return False
    place, what, sign = mistake
    name = names.get(
        place, f"{3 * how['hidden'] + 2 if how['norm'] else 2 * how['hidden'] + 2}.weight"
    )
    first = found.obstacles[0]
    assert (first.name, first.cause) == (name, {"initial": "initial scale"}.get(what, what)), how
    assert first.exponent * sign > 0
    return True


def tellable(how, mistake):
    """A readout that starts smaller than it may is in order: it learns what it needs."""
    place, what, sign = mistake
    small = what == "initial" and sign < 0 and place == "last"
    # a norm behind a layer takes the size of its initial weights away
    normed = how["norm"] and what == "initial" and place == "hidden"
    return not small and not normed


@settings(max_examples=5)
@given(networks(), mistakes())
def test_a_mistake_that_is_drawn_is_named_or_not_told_and_nobody_else_comes_first(how, mistake):
    if tellable(how, mistake):
        check(how, mistake)


@settings(max_examples=3)
@given(networks())
def test_nobody_is_accused_where_all_is_right(how):
    make, _ = maker(how)
    assert not found_by(make).obstacles, how


@pytest.mark.slow
def test_most_of_many_that_are_drawn_are_told():
    told: list[bool] = []

    @settings(max_examples=120)
    @given(networks(), mistakes())
    def each(how, mistake):
        if tellable(how, mistake):
            told.append(check(how, mistake))

    each()
    assert sum(told) >= 0.8 * len(told)
