"""Networks that are known to train have no error; a fault planted in one is named first."""

import pytest

from sigmascope import diagnosis, survey
from sigmascope.core.guard import Refusal
from tests import faults

# what is named first is seen before any step; small ones, and by night all, are trained too
SMALL = {"resnet": {"depth": 8}, "transformer": {"depth": 2}, "mixer": {"depth": 2}}
TRAINED = {"sigmoid-stack", "rank-collapse", "dead-units", "saturated-units"}


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
@pytest.mark.parametrize("name", faults.ARCHITECTURES)
@pytest.mark.slow
def test_nothing_is_found_in_networks_that_train(name, seed):
    case = faults.case(name, seed)
    task = {"targets": case.targets, "loss": case.loss}
    measured = diagnosis.assess(case.model, case.inputs, **task, outputs=4)
    assert diagnosis.judge(measured) == ()
    assert diagnosis.trainability.probability(measured).estimate.low > 0.8


def each():
    """Every fault, alone or with a few steps of training."""
    for fault in faults.FAULTS:
        name = f"{fault[0].split(' at ')[0]}-{fault[1]}"
        if fault[-1] not in TRAINED:
            yield pytest.param(*fault, survey.profile, id=name)
        late = [] if fault[-1] in TRAINED else [pytest.mark.slow]
        yield pytest.param(*fault, diagnosis.assess, marks=late, id=f"{name}-trained")


@pytest.mark.parametrize(("says", "architecture", "change", "name", "measure"), [*each()])
def test_a_planted_fault_is_named_first(says, architecture, change, name, measure):
    few = measure is survey.profile and name != "unrelated-targets"
    size = SMALL[architecture] if few else {}
    case = faults.case(architecture, samples=32 if few or name in TRAINED else 128, **size)
    change(case)
    told = lambda: measure(case.model, case.inputs, targets=case.targets, loss=case.loss, outputs=4)
    if name == "non-finite":  # cannot be measured; the refusal names it
        with pytest.raises(Refusal, match=r"weight` must be finite, got 1 of"):
            told()
        return
    found = diagnosis.judge(told())
    assert found[0].name == name, [f.name for f in found]
    assert not found[0].follows
    assert all(f.evidence and f.source and f.remedies for f in found)
