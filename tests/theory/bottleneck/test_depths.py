import json
import math

import pytest
import torch
from torch import nn

from sigmascope import theory
from sigmascope.core.guard import Refusal
from sigmascope.models import Subject
from sigmascope.theory.bottleneck import Trained, fit_of, read_sweep, settle
from sigmascope_experiments.jacot2023.tasks import bottleneck_task, stack


def test_several_penalties_are_trained_and_coordinates_kept():
    x, y = bottleneck_task(0, samples=30)
    found = theory.bottleneck.depth_sweep(stack, x, y, depths=[3], steps=5, ridge=[1e-2, 1e-3])
    assert [n.ridge for n in found.networks] == [1e-3, 1e-2]
    assert all(len(n.coordinates) == 30 for n in found.networks)
    one = theory.bottleneck.depth_sweep(stack, x, y, depths=[3], steps=5, ridge=1e-2)
    assert one.networks == found.networks[1:]


def square(depth, generator):
    layers = [nn.Linear(3, 3) for _ in range(depth)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.6, generator=generator)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def test_a_sweep_is_resumed_with_identical_results(tmp_path):
    x, y = bottleneck_task(0, samples=40)
    of = {"depths": [3, 4], "steps": 40}
    whole = theory.bottleneck.depth_sweep(stack, x, y, **of, file=tmp_path / "whole.jsonl")
    head, first, _ = (tmp_path / "whole.jsonl").read_text().splitlines()
    cut = f'{head}\n{first}\n{{"depth": 4, "se'  # killed while writing
    (tmp_path / "cut.jsonl").write_text(cut)
    said = []
    again = theory.bottleneck.depth_sweep(
        stack, x, y, **of, file=tmp_path / "cut.jsonl", progress=lambda *w: said.append(w)
    )
    assert again == whole
    assert (tmp_path / "cut.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    assert said == [("training", 1, 2), ("depth 4", 2, 2)]
    assert theory.bottleneck.depth_sweep(stack, x, y, **of).networks == whole.networks


def test_training_drives_a_linear_map_to_its_least_norm():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=g)
    y = x @ torch.diag(torch.tensor([1.5, 1.0, 0.0]))
    found = theory.bottleneck.depth_sweep(
        square, x, y, depths=[3], steps=1500, ridge=3e-3, rate=2e-2
    )
    (network,) = found.networks
    assert network.fits
    assert network.rank[0] == 2
    least = 3 * (1.5 ** (2 / 3) + 1)
    assert network.norm == pytest.approx(least, rel=0.03)


def test_work_can_be_shared(tmp_path):
    x, y = bottleneck_task(0, samples=20)
    seen = []

    def mapper(run, many):
        seen.extend(many)
        return [run(one) for one in reversed(list(many))]

    theory.bottleneck.depth_sweep(stack, x, y, depths=[3, 2], seeds=[0, 5], steps=3, mapper=mapper)
    assert seen == [(2, 1e-3, 0), (2, 1e-3, 5), (3, 1e-3, 0), (3, 1e-3, 5)]


def test_denormals_are_as_before():
    x, y = bottleneck_task(0, samples=10)
    theory.bottleneck.depth_sweep(stack, x, y, depths=[2], steps=2)
    denormal = lambda: float(torch.tensor(1e-310, dtype=torch.float64) * 1)
    assert denormal() > 0
    torch.set_flush_denormal(True)
    try:
        theory.bottleneck.depth_sweep(stack, x, y, depths=[2], steps=2)
        assert denormal() == 0
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.usefixtures("as_users_see_it")
def test_sweeps_that_cannot_be_trained_are_refused(tmp_path):
    x, y = bottleneck_task(0, samples=10)
    with pytest.raises(Refusal, match="a row for each sample"):
        theory.bottleneck.depth_sweep(stack, x, y[:5], depths=[2])
    with pytest.raises(Refusal, match="`depths` must be 2 or more"):
        theory.bottleneck.depth_sweep(stack, x, y, depths=[1])
    file = tmp_path / "a.jsonl"
    theory.bottleneck.depth_sweep(stack, x, y, depths=[2], steps=2, file=file)
    assert json.loads(file.read_text().splitlines()[0])["recipe"]["steps"] == 2
    with pytest.raises(Refusal, match="steps is 2 there and 3 here"):
        theory.bottleneck.depth_sweep(stack, x, y, depths=[2], steps=3, file=file)
    wider = lambda depth, g: square(depth, g).append(nn.Linear(3, 3))
    with pytest.raises(Refusal, match="network is"):
        theory.bottleneck.depth_sweep(wider, x, y, depths=[2], steps=2, file=file)
    tanh = lambda depth, g: nn.Sequential(nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 20))
    with pytest.raises(Refusal, match="must give plain stacks"):
        theory.bottleneck.depth_sweep(tanh, x, y, depths=[2], steps=2)


def two_outputs():
    model = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.5, 0.0], [0.0, -1.0, 0.3]]))
    return model


def data(count=200, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=g)
    return x, torch.randn(count, 2, generator=g)


@pytest.mark.parametrize(
    ("missed", "noisy", "low", "high", "fits", "says"),
    [
        (0.0, 0.05, 0.0, 0.01, True, "it fits ("),
        (0.0, 0.6, 0.1, 1.0, True, "noise"),
        (1.0, 0.1, 0.1, 1.0, False, "the inputs predict"),
    ],
)
def test_a_large_rest_fits_if_it_is_noise(missed, noisy, low, high, fits, says):
    x, noise = data()
    bent = torch.stack([(2 * x[:, 0]).sin(), x[:, 1].abs()], dim=1)
    targets = two_outputs()(x).detach() + missed * bent + noisy * noise
    found = fit_of(Subject(two_outputs(), x), targets)
    assert found.fits is fits
    assert low < found.unexplained.value < high
    assert says in found.says


def test_classes_are_counted_beside_the_most_common():
    x, _ = data()
    right = two_outputs()(x).argmax(1)
    wrong = right.clone()
    wrong[::4] = 1 - wrong[::4]
    assert fit_of(Subject(two_outputs(), x), right).unexplained.value == 0
    found = fit_of(Subject(two_outputs(), x), wrong)
    assert not found.fits
    common = float(wrong.bincount().max()) / len(wrong)
    assert found.unexplained.value == pytest.approx(0.25 / (1 - common))
    assert "75.0% of the samples are right" in found.says


@pytest.mark.usefixtures("as_users_see_it")
def test_targets_that_are_not_those_of_the_samples_are_refused():
    x, noise = data()
    subject = Subject(two_outputs(), x)
    with pytest.raises(Refusal, match="in the shape of the output"):
        fit_of(subject, noise[:, :1])
    with pytest.raises(Refusal, match="one class a row"):
        fit_of(subject, torch.zeros(7, dtype=torch.long))
    with pytest.raises(Refusal, match="got one class"):
        fit_of(subject, torch.zeros(200, dtype=torch.long))
    with pytest.raises(Refusal, match="got one value"):
        fit_of(subject, torch.ones(200, 2))


def rows(count=60):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(count, 3, generator=g)
    return x, x @ torch.randn(3, 2, generator=g)


def net():
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(0.1)
        model.bias.zero_()
    return model


def test_it_settles_at_the_ridge_solution():
    x, y = rows()
    model = settle(net(), x, y, ridge=1e-2, steps=1500, rate=3e-2)
    one = torch.cat([x, torch.ones(60, 1)], dim=1).double()
    A = one.mT @ one / (60 * 2) + 1e-2 * torch.eye(4)  # the mean is over samples and outputs
    exact = torch.linalg.solve(A, one.mT @ y.double() / (60 * 2)).mT
    found = torch.cat([model.weight, model.bias[:, None]], dim=1).detach().double()
    assert torch.allclose(found, exact, atol=1e-4)


def test_every_sample_is_used_once_a_pass():
    x, y = rows(8)
    seen = []

    class Spy(nn.Linear):
        def forward(self, input):
            seen.append(input.detach().clone())
            return super().forward(input)

    settle(Spy(3, 2), x, y, steps=2, batch_size=4, generator=torch.Generator().manual_seed(1))
    assert sorted(torch.cat(seen).tolist()) == sorted(x.tolist())


def test_frozen_parameters_stay():
    x, y = rows()
    model = net()
    model.bias.requires_grad_(False)
    settle(model, x, y, steps=5)
    assert torch.equal(model.bias, torch.zeros(2))


@pytest.mark.usefixtures("as_users_see_it")
def test_training_that_cannot_settle_is_refused():
    x, y = rows()
    with pytest.raises(Refusal, match="one row for each sample"):
        settle(net(), x, y[:3])
    with pytest.raises(Refusal, match="must stay finite"):
        settle(net(), x * 1e30, y, steps=3)


def trained(depth, rank, *, uses=None, norm=None, fits=True, tangent=70.0, seed=0, ridge=1e-3):
    norm = 16 + rank * depth if norm is None else norm
    ranks, uses = (rank, rank, rank), uses or (rank, rank, rank)
    return Trained(depth, ridge, seed, 0.004 if fits else 0.03, norm, ranks, uses, tangent, fits)


def test_segments_are_affine_with_the_rank_as_slope():
    two = (2, 2, 2)
    found = read_sweep(
        [trained(d, 3, uses=two) for d in (6, 7, 8)] + [trained(d, 2) for d in (10, 12, 16)]
    )
    assert [s.rank for s in found.segments] == [3, 2]
    for s in found.segments:
        assert s.slope.value == pytest.approx(s.rank)
        assert s.offset == pytest.approx(16)
    assert (found.rank.low, found.rank.value, found.rank.high) == (2, 2, 2)
    assert "The task has 2 dimensions, told by 6 of 6 networks that fit" in found.says
    assert "at depth 16 they pass 2 through" in found.says
    kinds = [n.kind for n in found.networks]
    assert kinds == ["overestimating"] * 3 + ["recovering"] * 3


def test_minima_of_too_low_a_rank_are_told_apart():
    deep = trained(24, 1, norm=52.0, fits=False, tangent=450.0)
    found = read_sweep([trained(d, 2) for d in (10, 12, 16)] + [deep])
    assert found.rank.value == 2
    assert found.networks[-1].kind == "underestimating"
    assert not found.segments[-1].fits
    assert "some fell to 1, which does not fit" in found.says
    assert "6.4 times as large" in found.says


def test_networks_that_disagree_leave_a_wider_interval():
    found = read_sweep([trained(6, 3), trained(8, 3), trained(10, 2), trained(12, 2)])
    assert found.rank.value == 2  # the deeper ones decide where counts are even
    assert (found.rank.low, found.rank.high) == (2, 3)
    doubtful = [trained(d, 3, uses=(3, 2, 3)) for d in (8, 12)]
    assert read_sweep(doubtful).rank.low == 2
    one_of_many = [trained(d, 2) for d in range(4, 12)] + [trained(12, 3)]
    assert read_sweep(one_of_many).rank.high == 2


def test_penalties_have_segments_of_their_own():
    weak = [trained(d, 3, norm=20 + 3 * d, ridge=1e-4) for d in (6, 8)]
    found = read_sweep(weak + [trained(d, 2) for d in (6, 8)])
    assert [(s.ridge, s.rank) for s in found.segments] == [(1e-4, 3), (1e-3, 2)]
    assert [s.slope.value for s in found.segments] == pytest.approx([3, 2])


def test_the_clearest_network_is_the_deepest_that_recovers_if_any_fits():
    many = [
        trained(6, 2),
        trained(10, 2),
        trained(14, 3, uses=(2, 2, 2)),
        trained(20, 1, fits=False),
    ]
    assert read_sweep(many).clearest is many[1]
    assert read_sweep(many[2:]).clearest is many[2]
    none = read_sweep(many[3:])
    assert (none.clearest, none.rank.high) == (None, math.inf)
    assert "No network fits" in none.says


def test_the_slope_has_an_interval_from_the_scatter():
    norms = [36.1, 40.3, 44.0, 48.2]
    found = read_sweep(
        [trained(d, 2, norm=n) for d, n in zip((10, 12, 14, 16), norms, strict=True)]
    )
    slope = found.segments[0].slope
    assert slope.low < 2 < slope.high
    assert slope.high - slope.low < 0.4
