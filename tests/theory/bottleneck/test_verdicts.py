"""Which inner dimension a network uses, on networks built to use it."""

import math

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.theory.bottleneck import bottleneck
from sigmascope_experiments.jacot2023.tasks import stack
from tests.models_zoo import MODELS
from tests.sampling import some

UNREADABLE = {"inplace-residual": "changed in place"}


def narrow(rank, *, passes=None, depth=6, width=12, seed=0, scale=1.0):
    """A ReLU network whose function uses some dimensions and whose layers pass on more.

    Balanced isometries between, so that it is as a minimum with a penalty would be.
    """
    passes = passes or rank
    g = torch.Generator().manual_seed(seed)
    frame = lambda n: torch.linalg.qr(torch.randn(n, n, generator=g))[0]
    first, last = frame(8)[:passes], frame(9)[:, :passes].clone()
    last[:, rank:] *= 1e-6
    layers: list[nn.Module] = []
    weights = [first, *[torch.eye(passes)] * (depth - 2), last]
    for i, W in enumerate(weights):
        layer = nn.Linear(W.shape[1], W.shape[0])
        with torch.no_grad():
            layer.weight.copy_(scale * W)
            layer.bias.fill_(3.0 if i == 0 else 0.0)  # keeps every unit above zero
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def samples(count=120, seed=1):
    return torch.randn(count, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("rank", "passes", "targets", "kind", "says"),
    [
        (1, 1, lambda out: out, "recovering", "it fits"),
        (2, 2, lambda out: out, "recovering", "uses 2 dimensions"),
        (4, 4, lambda out: out, "recovering", "uses 4 dimensions"),
        (2, 2, lambda out: out.argmax(1), "recovering", "100.0% of the samples are right"),
        (2, 3, lambda out: out, "overestimating", "pass on 3"),
        (2, 3, lambda out: None, "overestimating", "pass on 3"),
        (2, 2, lambda out: None, "unknown", "without targets"),
    ],
)
def test_a_network_recovers_what_it_uses_or_passes_more(rank, passes, targets, kind, says):
    model, x = narrow(rank, passes=passes), samples()
    found = bottleneck(model, x, targets=targets(model(x).detach()))
    assert (found.rank.low, found.rank.value, found.rank.high) == (rank, rank, rank)
    assert found.layers == ("0", "2", "4", "6", "8")
    assert found.kind == kind
    assert says in found.says


def test_settled_weights_that_miss_a_dimension_underestimate():
    model, x = narrow(1), samples()
    # balance: the first layer's bias counts as a weight
    with torch.no_grad():
        model[0].bias.mul_(0.1)
    more = narrow(3, seed=5)
    target = model(x).detach() + more(x).detach()
    found = bottleneck(model, x, targets=target)
    assert found.rank.value == 1
    assert found.kind == "underestimating"
    assert "does not fit" in found.says


def test_an_untrained_network_is_not_judged():
    model = stack(6, torch.Generator().manual_seed(0), inputs=8)
    x = samples()
    target = torch.stack([x[:, 0] * x[:, 1], x[:, 2].sin()], 1).repeat(1, 10)
    found = bottleneck(model, x, targets=target)
    assert found.kind == "unknown"


def test_evidence_names_where_counts_disagree():
    found = bottleneck(narrow(2, passes=3), samples())
    by_name = {}
    for e in found.evidence:
        by_name.setdefault(e.name, []).append(e.estimate.value)
    assert set(by_name["written rank"]) == {3}
    assert min(by_name["relative weight rank"]) == 2  # the last layer drops one
    assert by_name["inner dimension"] == [2]
    assert by_name["NTK trace per layer"][0] > 0


def test_more_outputs_than_mixtures_leave_the_end_open():
    g = torch.Generator().manual_seed(0)
    wide = nn.Linear(90, 80)
    with torch.no_grad():
        wide.weight.copy_(torch.linalg.qr(torch.randn(90, 80, generator=g))[0].mT)
    found = bottleneck(wide, torch.randn(9, 90, generator=g))
    assert (found.rank.low, found.rank.high) == (64, float("inf"))
    assert found.kind == "unknown"
    assert "uses 64 or more dimensions" in found.says


@pytest.mark.parametrize("name", some(MODELS))
def test_every_model_of_the_zoo_is_read_or_refused(name):
    model, batch = MODELS[name]()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    if name in UNREADABLE:
        with pytest.raises(Refusal, match=UNREADABLE[name]):
            bottleneck(model, batch)
    else:
        found = bottleneck(model, batch)
        assert found.kind in ("unknown", "overestimating")
        assert found.rank.low <= found.rank.value <= found.rank.high
        assert found.says.endswith(".")
    for k, v in model.state_dict().items():
        assert torch.equal(v, before[k])


def test_the_norm_beyond_the_least_is_that_of_factors_that_stretch():
    """Six that stretch two directions by 1.2 cost 12 · 1.2², and at least 12 + 24 log 1.2."""
    found = bottleneck(narrow(2, scale=1.2), samples())
    (excess,) = [e.estimate for e in found.evidence if e.name == "smallest norm excess"]
    assert excess.value == pytest.approx(12 * 1.2**2 - 12 - 24 * math.log(1.2), rel=1e-5)


def test_one_layer_alone_is_not_said_to_have_settled():
    """Nothing is balanced against it, so that its defect is zero before any training."""
    torch.manual_seed(0)
    x, y = torch.randn(64, 6), torch.randint(3, (64,))
    found = bottleneck(nn.Sequential(nn.Linear(6, 3, bias=False)), x, targets=y)
    assert found.kind == "unknown"
    assert "one layer alone has no balance to tell it by" in found.says
