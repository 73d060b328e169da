import math

import pytest
import torch

from sigmascope.linalg import zero_exponents
from sigmascope.theory import random_chains
from sigmascope.theory.random_chains import (
    BatchNormChain,
    LinearChain,
    forgetting,
    product,
    random_numbers,
    random_weights,
)
from tests.sampling import some

INF = math.inf
# width, gamma, weights: alpha, E|M|^2, E r, mean soft rank at 1/2, each with its standard error
TABLE = {
    (8, 0.1, "uniform"): ((0.9032, 2e-4), (25.79, 0.03), (2.539, 0.003), (3.090, 0.004)),
    (8, 0.5, "uniform"): ((0.9099, 1e-4), (28.67, 0.02), (2.2943, 0.0012), (2.8409, 0.0017)),
    (8, INF, "uniform"): ((0.9096, 1e-4), (28.63, 0.02), (2.2981, 0.0013), (2.8473, 0.0021)),
    (16, 1.0, "uniform"): ((0.8831, 1e-4), (77.69, 0.05), (3.3460, 0.0022), (4.5076, 0.0041)),
    (32, 0.5, "uniform"): ((0.8622, 2e-4), (210.5, 0.2), (4.9054, 0.0035), (7.0915, 0.0077)),
    (64, INF, "uniform"): ((0.8454, 3e-4), (573.7, 0.9), (7.169, 0.011), (11.01, 0.02)),
    (8, INF, "gaussian"): ((0.9118, 1e-4), (math.nan, 0), (2.2455, 0.0016), (2.7893, 0.0022)),
    (16, 0.5, "gaussian"): ((0.8838, 2e-4), (math.nan, 0), (3.3170, 0.0032), (4.4714, 0.0054)),
    (32, INF, "gaussian"): ((0.8624, 3e-4), (math.nan, 0), (4.8718, 0.0057), (7.054, 0.009)),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def standard_error(e):
    return (e.high - e.low) / 2 / 1.96


@pytest.mark.parametrize(("width", "gamma", "weights"), some(TABLE), ids=str)
def test_statistics_agree_with_the_reference_table(width, gamma, weights):
    chains = max(8, 512 // width)
    chain = BatchNormChain(width, gamma, weights=weights, chains=chains, generator=seeded(width))
    found = chain.run(60_000 // chains)
    names = ("regularity", "frobenius_sq", "participation_ratio", "soft_rank")
    for name, (value, error) in zip(names, TABLE[width, gamma, weights], strict=True):
        e = getattr(found, name)
        if not math.isnan(value):
            assert abs(e.value - value) <= 3.5 * math.hypot(standard_error(e), error), name


@pytest.mark.parametrize("gamma", [0.5, INF])
def test_one_step_is_what_a_plain_loop_does(gamma):
    X = torch.randn(9, 6, generator=seeded(1), dtype=torch.float64)  # rows are samples
    chain = BatchNormChain(6, gamma, weights="uniform", inputs=X, generator=seeded(2))
    H = X.mT / X.mT.square().mean(1, keepdim=True).sqrt()
    again = random_numbers(seeded(2))
    for _ in range(4):
        chain.step()
        W = random_weights((6, 6), "uniform", again)
        H = W @ H if math.isinf(gamma) else H + gamma * W @ H
        H = H / H.square().mean(1, keepdim=True).sqrt()
    direct = torch.linalg.svdvals(H / 3)
    assert torch.allclose(chain.singular_values()[0], direct, atol=1e-11)


def test_dropping_dead_directions_changes_nothing(monkeypatch):
    """The same weights with and without it: rounding is all that differs, until it has grown."""
    kept = BatchNormChain(12, weights="uniform", generator=seeded(4))
    kept._next_look = INF
    dropped = BatchNormChain(12, weights="uniform", generator=seeded(4))
    for _ in range(600):
        kept.step()
        dropped.step()
    assert dropped.state.shape[-1] < 12
    alive = dropped.state.shape[-1]
    assert torch.allclose(
        dropped.singular_values()[0], kept.singular_values()[0, :alive], atol=1e-6
    )


def test_rank_falls_with_fewer_samples_and_not_with_more():
    """The averages depend on the rank of the inputs: 1.854, 2.984, 3.371 for 2, 4, 16 samples."""
    for samples, r in ((2, 1.854), (4, 2.984), (16, 3.371)):
        chain = BatchNormChain(16, samples=samples, chains=64, generator=seeded(samples))
        e = chain.run(600).participation_ratio
        assert abs(e.value - r) < 3 * math.hypot(standard_error(e), 0.01 * r)


def test_a_nearly_collinear_batch_opens_up():
    X = torch.randn(32, 1, generator=seeded(3), dtype=torch.float64)
    u = torch.randn(32, 32, generator=seeded(8), dtype=torch.float64)
    chain = BatchNormChain(32, inputs=X.expand(32, 32).mT + 1e-3 * u, generator=seeded(9))
    assert float(chain.singular_values()[0, 0]) == pytest.approx(32**0.5, rel=1e-3)
    for _ in range(32):
        chain.step()
    assert 2 < float(chain.singular_values()[0, 0]) < 4.2
    assert float(chain.singular_values()[0, 5]) > 0.5


@pytest.mark.slow
def test_intervals_cover_as_they_say():
    """Of 60 short runs, the share of intervals that miss the long-run value is near 5 %."""
    misses = 0
    for seed in range(60):
        chain = BatchNormChain(8, weights="uniform", generator=seeded(seed))
        e = chain.run(750).participation_ratio
        misses += not e.low <= 2.2981 <= e.high
    assert misses <= 9  # 9 or more of 60 at 5 % would happen once in 400


def test_running_on_is_running_once():
    once = BatchNormChain(5, chains=3, generator=seeded(10))
    once.run(40, burn_in=10)
    twice = BatchNormChain(5, chains=3, generator=seeded(10))
    twice.run(25, burn_in=10)
    twice.run(15, burn_in=0)
    assert twice.age == once.age == 50
    assert torch.equal(twice.state, once.state)


@pytest.mark.parametrize(
    ("width", "gamma", "alive"), [(3, INF, 2), (4, INF, 2), (6, INF, 3), (8, 0.5, 4), (16, INF, 6)]
)
@pytest.mark.slow
def test_zero_exponents_count_the_directions_that_live(width, gamma, alive):
    chain = BatchNormChain(width, gamma, chains=16, generator=seeded(width))
    found = chain.exponents(4000, burn_in=800)
    assert zero_exponents(found).value == alive
    assert found[alive].high < 0


@pytest.mark.parametrize("layers", [600, 6000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.slow
def test_the_count_of_zero_exponents_gets_no_worse_with_length(layers, chains):
    """The third exponent of this chain is -0.015: a short run takes it for zero, and says so."""
    for seed in (0, 1):
        chain = BatchNormChain(4, 0.5, chains=chains, generator=seeded(seed))
        found = zero_exponents(chain.exponents(layers))
        assert found.low <= 2 <= found.high <= 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rounding_raises_no_rank(dtype):
    g = seeded(4)
    X = torch.randn(10, 2, generator=g, dtype=torch.float64)
    X = (X @ torch.randn(2, 8, generator=g, dtype=torch.float64)).to(dtype)
    chain = BatchNormChain(8, 0.5, inputs=X, generator=g)
    assert chain.rank == 2
    found = chain.run(2000)
    assert found.participation_ratio.high <= 2
    assert (found.rank, found.settled) == (2, True)
    full = BatchNormChain(8, 0.5, chains=3, generator=g)
    assert (full.rank, full.run(40, burn_in=0).settled) == (8, False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 0}, "`width` must be a whole number, 1 or more, got 0"),
        ({"gamma": 0.0}, "`gamma` must be above 0"),
        ({"gamma": -1.0}, "`gamma` must be above 0"),
        ({"gamma": math.nan}, "`gamma` must be above 0"),
        ({"weights": "gausian"}, "Did you mean `gaussian`"),
        ({"inputs": torch.ones(3, 5)}, "rows of 4 numbers"),
        ({"inputs": torch.zeros(3, 4)}, "every feature is present"),
    ],
)
def test_options_that_make_no_chain_are_refused(as_users_see_it, options, words):
    with pytest.raises(ValueError, match=words):
        BatchNormChain(**{"width": 4, **options})


@pytest.mark.parametrize("options", [{"layers": 0}, {"tau": 0.0}, {"tau": 1.5}])
def test_run_refusals(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be"):
        BatchNormChain(4, generator=seeded()).run(**{"layers": 10, **options})


def test_a_start_that_is_nearly_collinear_takes_longer_to_forget():
    g = seeded(5)
    X = torch.randn(1, 6, generator=g, dtype=torch.float64).expand(9, 6)
    X = X + 1e-9 * torch.randn(9, 6, generator=g, dtype=torch.float64)
    chain = BatchNormChain(6, 0.5, inputs=X, generator=g)
    assert chain.rank == 6
    assert chain.spread < 1e-8
    assert chain.run(60).burn_in > forgetting(6, 0.5) + 50


@pytest.mark.parametrize("depth", [4, 10, 24])
@pytest.mark.parametrize("slope", [1.0, 0.3, 2.5])
def test_it_computes_the_bent_map(depth, slope):
    before = torch.get_rng_state()
    net = random_chains.lipschitz_counterexample(depth, slope)
    assert torch.equal(torch.get_rng_state(), before)  # nothing is drawn
    x = torch.rand(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = x.clone()
    expected[:, 2] += slope * (x[:, 0] - x[:, 1]).clamp(min=0)
    assert torch.allclose(net(x), expected, rtol=1e-12, atol=1e-12)
    assert sum(isinstance(m, torch.nn.Linear) for m in net) == depth


@pytest.mark.parametrize("eps", [0.01, 0.1, 0.5])
def test_its_norm_is_the_formula(eps):
    for depth in (4, 12, 40):
        net = random_chains.lipschitz_counterexample(depth, eps=eps)
        norm = sum(float(p.detach().square().sum()) for p in net.parameters())
        assert norm - 3 * depth == pytest.approx(
            random_chains.counterexample_excess(depth, eps), rel=1e-9, abs=1e-9
        )


def test_the_excess_vanishes_for_exponents_between_a_half_and_one():
    known = {0.4: 478, 0.5: 12.0, 0.6: 0.301, 0.75: 0.0012, 0.9: 0.0037, 1.0: 0.871, 1.2: 2.90}
    for gamma, excess in known.items():
        found = random_chains.counterexample_excess(10**8, 10 ** (-8 * gamma))
        assert found == pytest.approx(excess, rel=0.05), gamma
    for depth, excess in ((100, 0.75), (1000, 0.206), (10**4, 0.043), (10**5, 0.0077)):
        best = min(
            random_chains.counterexample_excess(depth, c * math.log(depth) / depth)
            for c in torch.linspace(0.05, 1.5, 400).tolist()
        )
        assert best == pytest.approx(excess, rel=0.03)


@pytest.mark.parametrize(
    ("words", "says"), [((5,), "must be even"), ((2,), "at least 4"), ((6, -1.0), "above 0")]
)
def test_counterexamples_of_no_depth_are_refused(words, says):
    with pytest.raises(ValueError, match=says):
        random_chains.lipschitz_counterexample(*words)


def test_a_narrow_gaussian_has_the_law_of_the_whole_product():
    """Second moments of W H, with the shortcut (few directions) and without it."""
    H = torch.randn(1, 12, 3, generator=seeded(5), dtype=torch.float64).expand(4000, -1, -1)
    drawn = product(H.contiguous(), "gaussian", random_numbers(seeded(6)))
    covariance = (drawn.mT @ drawn).mean(0) / 12
    exact = H[0].mT @ H[0]
    assert torch.allclose(covariance, exact, atol=0.1 * float(exact.abs().max()))
    mixed = (drawn[:, 0, 0] * drawn[:, 1, 0]).mean()
    assert abs(float(mixed)) < 0.1 * float(exact.abs().max())  # rows are independent


def test_the_second_direction_dies_at_the_rate_of_the_gap():
    """Mean of log(σ₂/σ₁) after 400 layers against (μ₁ - μ₂) * 400, over 64 chains."""
    g = torch.Generator().manual_seed(11)
    first, second = LinearChain(8, 0.5, chains=16, generator=g).exponents(1500, count=2)
    chain = LinearChain(8, 0.5, chains=64, generator=g)
    for _ in range(400):
        chain.step()
    sigma = chain.singular_values()
    logs = (sigma[:, 1] / sigma[:, 0]).log()
    expected = (second.value - first.value) * 400
    error = float(logs.std()) / 8 + 400 * (first.high - first.low)
    assert abs(float(logs.mean()) - expected) < 3 * error
    assert float(logs.mean()) < -20


@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
def test_nothing_overflows_over_many_layers(weights):
    chain = LinearChain(4, math.inf, weights=weights, generator=torch.Generator().manual_seed(0))
    for _ in range(3000):
        chain.step()
    assert bool(chain.state.isfinite().all())
    assert float(chain.state.norm()) == pytest.approx(1)
    assert chain.age == 3000


def test_those_of_one_layer_are_their_definitions():
    chain = BatchNormChain(5, 0.4, samples=7, generator=seeded())
    found = chain.run(1, burn_in=3, tau=0.3)
    M = chain.state[0] @ chain.state[0].mT
    square, cube = float(M.square().sum()), float((M @ M @ M).trace())
    regular = float((M @ M).diagonal().square().sum())
    assert found.participation_ratio.value == pytest.approx(25 / square)
    assert found.soft_rank.value == int((torch.linalg.eigvalsh(M) >= 0.3).sum())
    assert found.frobenius_sq.value == pytest.approx(square)
    assert found.regularity.value == pytest.approx(regular / cube)
    assert found.drift.value == pytest.approx(2 * 25 - 2 * square - 8 * cube + 8 * regular)
    assert (found.width, found.gamma, found.weights, found.samples) == (5, 0.4, "gaussian", 7)
    assert (found.tau, found.chains, found.layers, found.burn_in) == (0.3, 1, 1, 3)
    assert (found.rank, found.settled) == (5, False)


def test_the_drift_is_what_a_layer_adds_to_first_order():
    """Over many draws of the next weights, each with its opposite, so that odd orders cancel."""
    gamma = 0.02
    chain = BatchNormChain(3, gamma, samples=4, generator=seeded(1))
    drift = chain.run(1, burn_in=0).drift.value
    H = chain.state[0]
    W = torch.randn(20_000, 3, 3, generator=seeded(2), dtype=torch.float64)

    def size(H):
        H = H / H.norm(dim=-1, keepdim=True)
        return (H @ H.mT).square().sum((-2, -1))

    added = ((size(H + gamma * W @ H) + size(H - gamma * W @ H)) / 2 - size(H)) / gamma**2
    error = float(added.std()) / len(W) ** 0.5
    assert error < 0.05 * abs(drift)
    assert abs(float(added.mean()) - drift) < 4 * error + 10 * gamma**2 * abs(drift)
