"""Every field of what is stored comes back: a field that is forgotten fails here, by its name."""

import dataclasses
from types import MappingProxyType

import pytest
import torch

from sigmascope.records import (
    Assumption,
    Check,
    Estimate,
    Finding,
    Layer,
    Profile,
    Reading,
    SiteSpectrum,
    Skipped,
    Spectrum,
    Verdict,
)
from sigmascope.store import Run

NUMBER = Estimate(2.5, 1e-300, float("inf"), "golub-kahan(steps=64)", 1e-9)
WORDLESS = Estimate(0.0, -1.0, 1.0, "", 0.5)  # no route, and yet a number
SIGMA = torch.tensor([3.0, 1.0, 5e-324], dtype=torch.float64)
READING = Reading("fc", "stable rank", NUMBER, "weights", "matrix")
WHOLE = Profile(
    readings=(READING,),
    checks=(
        Check("t", "s", "a ≤ b", "fc", NUMBER, WORDLESS, "at least", (), Verdict.HOLDS),
        Check(
            "u",
            "v",
            "c ≤ d",
            "fc",
            None,
            None,
            "at most",
            (Assumption("x", True), Assumption("y", False), Assumption("z", None)),
            Verdict.INAPPLICABLE,
        ),
    ),
    skipped=(Skipped("head", "weights", "lazily initialised"),),
    layers=(Layer("fc", "Linear", 3, ("fc.weight", "fc.bias")),),
    spectra=(
        SiteSpectrum(
            "fc", "weights", "matrix", Spectrum(SIGMA, (5, 3), "free", SIGMA / 2, SIGMA * 2, 1e-3)
        ),
        SiteSpectrum("fc", "gradients", "", Spectrum(SIGMA, (5, 3), "exact")),
    ),
    about=MappingProxyType({"model": "mlp"}),
    views=("weights", "gradients"),
)
FINDING = Finding("a", "fc", "error", (READING, READING), "b", "c", ("d", "e"), "f")


def same(before, after):
    """Fail at the first field of `before` that `after` has not, or has otherwise."""
    if dataclasses.is_dataclass(before) and not isinstance(before, Estimate):
        for field in dataclasses.fields(before):
            assert hasattr(after, field.name), f"{type(before).__name__}.{field.name} is lost"
            same(getattr(before, field.name), getattr(after, field.name))
    elif isinstance(before, tuple):
        for one, other in zip(before, after, strict=True):
            same(one, other)
    elif isinstance(before, torch.Tensor):
        assert before.tolist() == after.tolist()
    else:
        assert before == after


def samples(value):
    """Every dataclass instance within a value."""
    if dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from samples(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from samples(item)


def stored(run):
    """A profile and findings out of a run, every field of `Profile` by its name."""
    readers = {"about": lambda: {w.name: w.value for w in run.about()}}
    readers["views"] = lambda: tuple(v.view for v in run.views())
    found = {}
    for field in dataclasses.fields(Profile):
        assert hasattr(run, field.name), f"a run has no {field.name}"
        read = readers.get(field.name, lambda name=field.name: tuple(getattr(run, name)()))
        found[field.name] = read()
    return found, tuple(run.findings())


def test_every_field_of_everything_comes_back(tmp_path):
    with Run(tmp_path / "a.run") as run:
        run.add_profile(WHOLE, [FINDING])
        found, findings = stored(run)
    for field in dataclasses.fields(Profile):
        before = getattr(WHOLE, field.name)
        same(dict(before) if field.name == "about" else before, found[field.name])
    same((FINDING,), findings)


@pytest.mark.parametrize("kind", [Profile, Finding, Reading, Check, Skipped, Layer, SiteSpectrum])
def test_the_samples_leave_no_field_at_its_default(kind):
    """Else a field that is not stored would come back by chance."""
    given = [sample for sample in samples((WHOLE, FINDING)) if type(sample) is kind]
    for field in dataclasses.fields(kind):
        default = field.default
        if default is dataclasses.MISSING:
            default = None if field.default_factory is dataclasses.MISSING else {}
        assert any(getattr(sample, field.name) != default for sample in given), field.name


def test_a_finding_that_was_stored_can_be_stored_again_with_what_it_follows(tmp_path):
    with Run(tmp_path / "a.run") as first, Run(tmp_path / "b.run") as second:
        first.add(step=1, findings=[FINDING])
        second.add(step=1, findings=first.findings())
        same((FINDING,), tuple(second.findings()))
