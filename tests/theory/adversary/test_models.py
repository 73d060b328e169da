"""An adversary: networks that nobody chose, against every theorem that speaks of networks."""

import random
from collections import Counter
from functools import cached_property

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from mpmath import mp, workdps

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Verdict
from sigmascope.models import Subject
from sigmascope.models.structure import Stack
from sigmascope.theory import OF_MODELS, check, jacot2023, le2022
from sigmascope.theory.jacot2023.facts import singular_values
from tests.theory.adversary import precise
from tests.theory.adversary.designs import (
    DESIGNS,
    LOSSES,
    Design,
    batch,
    drawn,
    model,
    targets,
    trained,
)

PLAIN = ("linear", "relu", "leaky", "absolute")
RELU_ONLY = {t.name for t in jacot2023.THEOREMS if t.relu_only}
CONFIRMED = 12  # checks of one network that are evaluated again with sixty digits, at most
OWN = (  # their measured side is that of vectors or frames that the library found
    "ntk-mixed-derivative",
    "bottleneck-frames",
    "bottleneck-one-frame",
)
REPRESENTATIONS = ("rank-participation", "soft-rank", "soft-rank-any-scale", "regularity")


class Attack:
    """One design, every check of it, and what is wrong with them."""

    def __init__(self, design):
        self.design = design
        net, x = model(design), batch(design)
        net.train(len(x) > 1)  # batch statistics need two samples
        y = targets(design, x)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            trained(design, net, x, y)
        loss = LOSSES[design.loss]
        self.subject = Subject(net, x, None if loss is None else y, loss)

    @cached_property
    def checks(self):
        try:
            return list(check(self.subject))
        except Refusal:  # a network that overflows, say
            return []

    def faults(self, *, digits):
        """Sentences, one a fault; none is what is wanted."""
        for c in self.checks:
            if c.verdict == Verdict.VIOLATED:
                yield f"{c.theorem} at {c.site}: {c.measured} {c.limit}"
        yield from self._declined()
        with workdps(digits):
            yield from self._contradicted()

    def _declined(self):
        """Theorems on stacks decline exactly where there is no stack, or none of their kind."""
        plain = self.design.shape in PLAIN
        shape, depth = self.design.shape, self.design.depth
        stack = self.subject.stack
        for c in self.checks:
            if c.theorem not in {t.name for t in jacot2023.THEOREMS}:
                continue
            no_stack = isinstance(stack, str)
            if no_stack and c.verdict != Verdict.INAPPLICABLE:
                yield f"{c.theorem} speaks of a {shape} network"
            if plain and no_stack and "not finite" not in stack:
                yield f"{c.theorem} declines a plain network: {stack}"
            bent = not no_stack and c.theorem in RELU_ONLY and stack.slope != 0
            if bent and c.verdict != Verdict.INAPPLICABLE:
                yield f"{c.theorem} speaks of slope {stack.slope}"
        odd = shape in ("gated", "layer-norm") and depth > 1 and self.design.width > 1
        if odd and isinstance(stack, Stack) and bool(self.subject.output.any()):
            yield f"a {shape} network is taken for a stack"

    def _contradicted(self):
        """Sides that are not in their intervals, and verdicts that sixty digits do not bear out."""
        wanted = [c for c in self.checks if c.verdict != Verdict.INAPPLICABLE]
        g = torch.Generator().manual_seed(self.design.seed)
        order = torch.randperm(len(wanted), generator=g)[:CONFIRMED].tolist()
        for c in (wanted[i] for i in order):
            sides = self._sides(c)
            if sides is None:
                continue
            measured, limit = sides
            if not precise.said(str(c.verdict), c.sense, measured, limit):
                sides = f"{mp.nstr(measured, 20)} and {mp.nstr(limit, 20)}"
                yield f"{c.theorem} at {c.site} {c.verdict}: {sides}"
            own = c.theorem in OWN  # of which only the verdict and the limit can be compared
            if not own and not precise.contains(c.measured, measured):
                yield f"{c.theorem} at {c.site}: {mp.nstr(measured, 20)} is not in {c.measured}"
            if c.theorem != "alignment" and not precise.contains(c.limit, limit):
                yield f"{c.theorem} at {c.site}: limit {mp.nstr(limit, 20)} is not in {c.limit}"

    def _sides(self, c):
        if c.theorem in REPRESENTATIONS:
            rows = self.subject.activations[c.site].samples
            if c.theorem == "regularity":
                return None if rows is None else precise.representation_sides(c.theorem, rows)
            return precise.representation_sides(c.theorem, rows)
        theorem = next(t for t in OF_MODELS if t.name == c.theorem)
        if issubclass(theorem, tuple(jacot2023.THEOREMS)) and c.theorem != "representation-rank":
            (bound,) = [b for b in theorem.facts(self.subject) if b.site == c.site]
            points = [bound.point, getattr(bound, "other", None) or bound.point]
            if not all(p.errors.decided for p in points):
                return None  # which side a unit is on, sixty digits would say otherwise
            return precise.stack_sides(bound, *(len(singular_values(p.spectrum)) for p in points))
        if c.theorem == le2022.Alignment.name:
            own = dict(self.subject.model.named_parameters())
            below, above = c.site.split(" ~ ")
            if "+" in c.site or own[below].ndim != 2 or own[above].ndim != 2 or self.design.biased:
                return None
            if own[below].shape[0] != own[above].shape[1]:
                return None
            return precise.alignment_sides(own[below], own[above])
        return None


def attacked(design, *, digits=40):
    attack = Attack(design)
    faults = list(attack.faults(digits=digits))
    assert not faults, f"{design}\n" + "\n".join(faults)
    return Counter((c.theorem, str(c.verdict)) for c in attack.checks)


FOUND = (  # by the many: eps alone, and a power of 1e77
    ("batch-norm", "gaussian", "scaled rows", "some", 4, 3, 2, 0, 1, (0, 3), "none", 798898),
    ("absolute", "identity", "rank two", "some", 2, 4, 2, 0, 1, (3, -6), "mse", 635687),
    ("batch-norm", "orthogonal", "rank two", "converged", 4, 1, 3, 0, 1, (-1, -1), "none", 967111),
)


@pytest.mark.usefixtures("as_users_see_it")
@settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None)
@example(Design(*FOUND[0]))
@example(Design(*FOUND[1]))
@example(Design(*FOUND[2]))
@given(DESIGNS)
def test_no_verdict_is_false(design):
    attacked(design)


CHECKS = 85_000  # here; more than 15 000 of matrices make it a hundred thousand


@pytest.mark.slow
@pytest.mark.usefixtures("as_users_see_it")
def test_of_very_many_verdicts_none_is_false(capsys):
    numbers, counts, faults = random.Random(0), Counter(), []
    while counts.total() < CHECKS:
        design = drawn(numbers)
        try:
            counts += attacked(design)
        except AssertionError as error:
            faults.append(str(error))
    with capsys.disabled():
        print(f"\n{counts.total()} checks of networks, {len(faults)} with a fault")
        for (theorem, verdict), count in sorted(counts.items()):
            print(f"  {theorem} {verdict}: {count}")
    assert not faults, "\n\n".join(faults[:20])
