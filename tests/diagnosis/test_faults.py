"""Networks that are known to train have no error; a fault planted in one is named first."""

import pytest

from sigmascope import diagnosis
from sigmascope.gate import Refusal
from tests import faults


def told(case):
    task = {"targets": case.targets, "loss": case.loss}
    measured = diagnosis.assess(case.model, case.inputs, **task, outputs=4)
    return diagnosis.judge(measured), diagnosis.trainability.probability(measured).estimate


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
@pytest.mark.parametrize("name", faults.ARCHITECTURES)
def test_nothing_is_found_in_networks_that_train(name, seed):
    found, chance = told(faults.case(name, seed))
    assert found == ()
    assert chance.low > 0.8


def one_of_each():
    """Every fault; those that are named as another before them by hand."""
    seen = set()
    for fault in faults.FAULTS:
        marks = [pytest.mark.slow] if fault[-1] in seen else []
        seen.add(fault[-1])
        yield pytest.param(*fault, marks=marks, id=f"{fault[0].split(' at ')[0]}-{fault[1]}")


@pytest.mark.parametrize(("says", "architecture", "change", "name"), [*one_of_each()])
def test_a_planted_fault_is_named_first(says, architecture, change, name):
    case = faults.case(architecture)
    change(case)
    if name == "non-finite":  # cannot be measured; the refusal names it
        with pytest.raises(Refusal, match=r"weight` must be finite, got 1 of"):
            told(case)
        return
    found, _ = told(case)
    assert found[0].name == name, [f.name for f in found]
    assert not found[0].follows
    assert all(f.evidence and f.source and f.remedies for f in found)
