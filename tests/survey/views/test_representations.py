import pytest
import torch
from torch import nn

from sigmascope import survey
from sigmascope.models.networks import mlp
from tests.models_zoo import Net


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), torch.randn(8, 4)


def test_the_float32_formula_underflows_and_ours_does_not():
    """32 default layers without bias on normal input: 1.02-1.03, where float32 has nan."""
    model = mlp(
        inputs=128,
        outputs=10,
        depth=32,
        width=128,
        bias=False,
        generator=torch.Generator().manual_seed(1),
    )
    x = torch.randn(128, 128, generator=torch.Generator().manual_seed(2))
    H = x
    with torch.no_grad():
        for block in model.hidden:
            H = block(H)
    M = H.T @ H / len(H)
    assert not (M.trace() ** 2 / M.square().sum()).isfinite()
    measured = survey.profile(model, x, views=["representations"])
    last = next(r for r in measured.series("participation ratio") if r.site == "readout")
    assert 1.01 < last.estimate.value < 1.04
    assert last.estimate.high - last.estimate.low < 1e-9


def test_overflow_inside_is_read_not_raised():
    model, x = small()
    with torch.no_grad():
        model[0].weight.fill_(3e38)
    measured = survey.profile(model, x.abs() + 1)
    assert measured.series("non-finite entries")[0].site == "2"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_relative_variation_is_known_up_to_four_roundings_both_ways(dtype):
    model, x = small()
    measured = survey.profile(model.to(dtype), x.to(dtype), views=["representations"])
    for r in measured.series("relative variation", form="samples"):
        e, noise = r.estimate, 4 * torch.finfo(dtype).eps
        assert e.high - e.value == pytest.approx(noise, rel=1e-6)
        assert e.value - e.low == pytest.approx(noise, rel=1e-6)


def representations(model, x):
    return survey.profile(model, x, views=["representations"])


def test_entries_that_are_not_finite_are_counted():
    model, x = small()
    with torch.no_grad():
        model[0].weight[1:3] = 3e38
    found = representations(model, x.abs() + 1)
    (bad,) = [r for r in found.series("non-finite entries") if r.site == "2"]
    assert bad.estimate.value == 2 * len(x)
    assert f"{2 * len(x)} of {6 * len(x)} entries are not finite" in [
        s.why for s in found.skipped if s.site == "2"
    ]


@pytest.mark.parametrize(
    ("rows", "said", "wholly"),
    [
        (torch.full((5, 4), 0.5), "all rows are equal", False),
        (torch.zeros(5, 4), "it is exactly zero", True),
        (1 + 1e-7 * torch.eye(5, 4), "rows differ by rounding only", False),
        (1 + 1e-2 * torch.eye(5, 4), None, False),
        (1e-3 * torch.eye(5, 4), None, False),
    ],
)
def test_what_centring_leaves_nothing_of_has_a_reason_in_its_place(rows, said, wholly):
    found = representations(nn.Linear(4, 3), rows)
    read = {r.quantity for r in found.readings if r.site == ""}
    why = {s.what: s.why for s in found.skipped if s.site == ""}
    ratios = {"participation ratio", "effective rank"}
    assert why.get("centred participation ratio (samples)") == said
    assert ("centred participation ratio" in read) is (said is None)
    assert (ratios <= read) is not wholly
    assert ratios.isdisjoint(read) is wholly
    assert ("relative variation" in read) is not wholly


class Scaled(nn.Module):
    """A product with several weights that all start at zero."""

    def __init__(self, count):
        super().__init__()
        self.scales = nn.ParameterList(torch.zeros(6) for _ in range(count))

    def forward(self, x):
        for scale in self.scales:
            x = x * scale
        return x


@pytest.mark.parametrize(("zeros", "form"), [(1, "behind zeros"), (2, "")])
def test_units_are_dead_behind_zeros_only_where_one_step_revives_them(zeros, form):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), Scaled(zeros), nn.Linear(6, 3)
    )
    with torch.no_grad():
        model[4].weight[:, 0] = 0  # of one scale not even the gradient is there
    found = representations(model, torch.randn(8, 4))
    dead = {r.site: (r.estimate.value, r.form) for r in found.series("dead units")}
    assert dead == {"2": (0.0, ""), "4": (1.0, form)}


def test_units_that_are_zero_on_every_sample_are_dead():
    model, x = small()
    with torch.no_grad():
        model[0].bias.copy_(torch.tensor([-99.0, -99, 99, 0, 0, 0]))
    (dead,) = representations(model, x).series("dead units")
    with torch.no_grad():
        h = model[1](model[0](x))
    assert (dead.site, dead.form) == ("2", "")
    assert dead.estimate.value == pytest.approx(float((h == 0).all(0).double().mean()))
    assert dead.estimate.value >= 2 / 6


def test_what_is_no_representation_of_samples_says_so():
    torch.manual_seed(0)
    model = Net(
        lambda m, ids: m.read(ids).mean(1) + m.own(m.rows).mean(0),
        read=nn.Embedding(9, 4),
        own=nn.Linear(3, 4),
        rows=nn.Parameter(torch.randn(7, 3)),
    )
    found = representations(model, torch.arange(20).reshape(5, 4) % 9)
    why = {s.site: s.why for s in found.skipped if s.what == "representations"}
    assert why == {
        "read": "it reads token ids, not a representation",
        "own": "its rows cannot be told apart by sample",
    }
    assert [r.site for r in found.series("inputs read")] == ["own"]


class Queried(nn.Module):
    """A token that is the same for all samples reads them through branches that begin as scaled."""

    def __init__(self, closed, *, depth=3, width=16, blocked=False):
        super().__init__()
        self.blocked = blocked
        self.token = nn.Parameter(torch.randn(width))
        self.inner = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.scales = nn.ParameterList(torch.full((width,), closed) for _ in range(depth))
        self.embed, self.norm = nn.Linear(8, width), nn.LayerNorm(width)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        token, x = self.token.expand(len(x), -1), self.embed(x)
        for inner, scale in zip(self.inner, self.scales, strict=True):
            branch = torch.relu(inner(torch.cat([token, x], 1)))
            token = token + (scale.detach() if self.blocked else scale) * branch
        return self.head(self.norm(token))


def parting(model, x):
    torch.manual_seed(0)
    found = survey.profile(model, x, views=["representations"])
    return {r.quantity: r.estimate for r in found.readings if r.site == "(output)"}


@pytest.mark.parametrize("closed", [0.0, 1e-5, 1e-3])
def test_a_step_parts_samples_that_branches_all_but_closed_keep_alike(closed):
    torch.manual_seed(0)
    x, y = torch.randn(40, 8), torch.arange(40) % 5
    model = Queried(closed)
    told = parting(model, x)
    assert told["relative variation"].value < 0.01
    assert told["tangent variation"].value > 0.02
    # which is so: it learns samples apart that it cannot tell at first
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert (model(x).argmax(1) == y).float().mean() > 0.9


@pytest.mark.parametrize("kind", ["deep", "zero", "tanh", "closed"])
def test_no_step_parts_samples_that_a_deep_network_has_lost(kind):
    torch.manual_seed(0)
    depth, act = (40, nn.Tanh) if kind == "tanh" else (40, nn.ReLU)
    model = nn.Sequential(*[p for _ in range(depth) for p in (nn.Linear(16, 16), act())])
    if kind == "zero":
        nn.init.zeros_(model[4].weight)
    if kind == "closed":  # and what would open it is not trained
        model = Queried(0.0, blocked=True)
    told = parting(model, torch.randn(40, 8 if kind == "closed" else 16))
    assert told["relative variation"].value < 0.01
    assert told["tangent variation"].high < 0.01


def test_the_tangent_variation_is_that_of_the_jacobian_by_all_weights():
    """For normal steps, the square of the size is the trace of the kernel, and of it centred."""
    torch.manual_seed(0)
    model, x = Queried(1e-4), torch.randn(20, 8)
    weights = {k: p.detach() for k, p in model.named_parameters()}
    one = lambda p: torch.func.functional_call(model, p, (x,))
    J = torch.cat([j.flatten(2) for j in torch.func.jacrev(one)(weights).values()], 2).double()
    exact = ((J - J.mean(0)).norm() / J.norm()).item()
    told = parting(model, x)["tangent variation"]
    assert told.value == pytest.approx(exact, rel=0.5)
    assert told.low <= exact <= told.high


def test_outputs_that_differ_are_not_asked():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    assert "tangent variation" not in parting(model, torch.randn(20, 8))
    assert parting(model, torch.ones(20, 8))["tangent variation"].high < 1e-6


@pytest.mark.parametrize("of", [lambda w: 0.0 * w, torch.sqrt])
def test_steps_that_change_nothing_or_have_no_size_are_told_as_such(of):
    model = nn.Linear(3, 3)
    nn.init.zeros_(model.bias)  # where a root has no derivative
    run = lambda m, x: torch.ones(len(x), 3) + of(m.w.bias)
    found = survey.profile(Net(run, w=model), torch.randn(8, 3), views=["representations"])
    assert not found.series("tangent variation")
    assert "tangent variation" in {s.what for s in found.skipped if s.site == "(output)"}


def test_the_tangent_variation_is_a_share():
    """Of steps that change no output on the mean, all of what they change; at least none."""
    torch.manual_seed(0)
    x = torch.cat([rows := torch.randn(20, 6), -rows])
    model = Net(lambda m, x: 1e3 + m.w(x), w=nn.Linear(6, 3, bias=False))
    whole = parting(model, x)["tangent variation"]
    assert whole.value == pytest.approx(1)
    assert whole.high <= 1
    # one weight parts them and one does not: four draws of both leave it open
    model = Net(lambda m, x: 1e3 + m.w(x), w=nn.Linear(1, 1))
    signs = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    little, much = (parting(model, size * signs)["tangent variation"] for size in (0.1, 0.3))
    assert little.low == 0 < little.value < little.high < 1
    assert 0 < much.low < much.value < much.high == 1
