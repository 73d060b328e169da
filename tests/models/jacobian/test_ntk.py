"""The tangent kernel as an operator, against Jacobians over parameters."""

import random
import re

import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from sigmascope import survey
from sigmascope.core.guard import Refusal
from sigmascope.linalg.krylov import extreme_eigenvalues
from sigmascope.models import Subject
from sigmascope.models.jacobian import ntk as gaps_of
from sigmascope.models.samples import as_tensor, chosen
from tests.fingerprints import differences, fingerprint
from tests.models_zoo import MODELS, Net, call
from tests.sampling import some

UNREADABLE = {
    "inplace-residual": "changed in place",
    "all-frozen": "parameters that require gradients",
    "bag-of-words": "embedding_bag",
}


def reference(model, x):
    """`J Jᵀ`, with J formed."""
    parameters = dict(model.named_parameters())
    one = jacrev(lambda p, v: functional_call(model, p, (v[None],))[0])
    found = vmap(one, (None, 0))(parameters, x)
    J = torch.cat([j.flatten(2).flatten(0, 1) for j in found.values()], dim=1)
    return (J @ J.mT).detach()


def network():
    torch.default_generator.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    ).double()


def test_it_is_the_gram_matrix_of_the_jacobian_over_several_pieces():
    model, x = network(), torch.randn(70, 1, 6, 6, dtype=torch.float64)  # 64 and 6
    kernel = Subject(model, x).tangent_kernel().dense()
    z = model[0](x).detach()
    with torch.no_grad():
        model[1].running_mean.copy_(z.mean((0, 2, 3)))
        model[1].running_var.copy_(z.var((0, 2, 3), unbiased=False))
    expected = reference(model.eval(), x)
    assert torch.allclose(kernel, expected, atol=1e-10 * float(expected.max()))


def test_its_top_is_found_by_lanczos():
    model, x = network().eval(), torch.randn(12, 1, 6, 6, dtype=torch.float64)
    kernel = Subject(model, x).tangent_kernel()
    g = torch.Generator().manual_seed(0)
    (top,) = extreme_eigenvalues(kernel, sides="top", steps=30, generator=g).top
    exact = float(torch.linalg.eigvalsh(reference(model, x))[-1])
    assert top.low <= exact * (1 + 1e-12)
    assert exact <= top.high * (1 + 1e-12)
    assert top.value == pytest.approx(exact, rel=1e-8)


def test_its_trace_is_that_of_every_sample():
    model, x = network().eval(), torch.randn(7, 1, 6, 6, dtype=torch.float64)
    exact = reference(model, x).diagonal().reshape(7, 3).sum(1)
    assert torch.allclose(Subject(model, x).ntk_trace, exact, rtol=1e-12)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("name", ["language-model-tied", "lstm", "shared-layer"])
def test_the_exact_trace_refuses_what_it_does_not_know(name):
    if name == "shared-layer":
        layer = nn.Linear(3, 3)
        model, batch = nn.Sequential(layer, nn.Tanh(), layer), torch.randn(4, 3)
    else:
        model, batch = MODELS[name]()
    with pytest.raises(Refusal, match="known and used once"):
        _ = Subject(model, batch).ntk_trace


def test_some_layers_alone_add_up_to_all():
    model, x = network().eval(), torch.randn(5, 1, 6, 6, dtype=torch.float64)
    subject = Subject(model, x)
    parts = [subject.tangent_kernel(layers=[name]).dense() for name in ("0", "1", "4")]
    assert torch.allclose(sum(parts), subject.tangent_kernel().dense())


@pytest.mark.parametrize("name", some(MODELS))
def test_on_the_zoo_it_is_symmetric_and_leaves_models_as_found(name):
    model, batch = MODELS[name]()
    before = fingerprint(model=model, batch=batch)
    if name in UNREADABLE:
        with pytest.raises(Refusal, match=UNREADABLE[name]):
            Subject(model, batch).tangent_kernel().dense()
    else:
        kernel = Subject(model, batch).tangent_kernel()
        g = torch.Generator().manual_seed(0)
        like = torch.randn(kernel.shape[1], 2, generator=g, dtype=torch.float64)
        image = kernel.apply(like)
        products = like.mT @ image
        size = float(products.diagonal().abs().max())
        rough = 2e-2 if kernel.like.dtype in (torch.bfloat16, torch.float16) else 1e-4
        assert float((products - products.mT).abs().max()) <= rough * size + 1e-30
        assert float(products.diagonal().min()) >= -rough * size
    assert not differences(before, fingerprint(model=model, batch=batch))


# ------------------------------------------------------------------------------
# The tangent kernel's trace, and its shares, count every trained parameter, or say which not.


def truth(model, x):
    """`Σ_k ‖∂ f_k(x_i)/∂θ‖²` by one backward pass for each sample and output."""
    owned = [p for p in model.parameters() if p.requires_grad]
    rows = []
    for i in range(len(x)):
        out = model(x[i : i + 1])[0].flatten()
        grads = [
            torch.autograd.grad(y, owned, retain_graph=True, allow_unused=True)
            for y in out
            if y.requires_grad
        ]
        rows.append(sum(float(g.square().sum()) for gs in grads for g in gs if g is not None))
    return torch.tensor(rows, dtype=torch.float64)


class Scaled(nn.Linear):
    def forward(self, x):
        return F.linear(x, 3 * self.weight, self.bias)


def lin():
    return nn.Linear(5, 5)


def free(*shape):
    return nn.Parameter(torch.randn(*shape))


PARTS = {
    "linear": lin,
    "no bias": lambda: nn.Linear(5, 5, bias=False),
    "prelu": lambda: nn.PReLU(5),
    "one prelu": nn.PReLU,
    "bare scale": lambda: Net(lambda m, x: m.s * x, s=free(5)),
    "bare matrix": lambda: Net(lambda m, x: x @ m.s.tanh(), s=free(5, 5)),
    "scaled": lambda: Scaled(5, 5),
    "weight norm": lambda: parametrizations.weight_norm(lin()),
    "old weight norm": lambda: nn.utils.weight_norm(lin()),
    "orthogonal": lambda: parametrizations.orthogonal(lin()),
    "rms by hand": lambda: Net(
        lambda m, x: m.weight * x * x.square().mean(-1, keepdim=True).add(1e-06).rsqrt(),
        weight=nn.Parameter(torch.randn(5)),
    ),
    "layer norm": lambda: nn.LayerNorm(5),
    "batch norm": lambda: nn.BatchNorm1d(5).eval(),
    "reused, transposed": lambda: Net(lambda m, x: m.l(F.linear(x, m.l.weight.mT).tanh()), l=lin()),
    "outside": lambda: Net(lambda m, x: F.linear(x, m.l.weight, m.l.bias), l=lin()),
    "half outside": lambda: Net(lambda m, x: m.l(x) + m.l.bias.square(), l=lin()),
    "penalty": lambda: Net(lambda m, x: m.l(x) * m.l.weight.norm(), l=lin()),
    "functional": lambda: Net(
        lambda m, x: functional_call(m.l, {"weight": m.l.weight.mT, "bias": -m.l.bias}, (x,)),
        l=lin(),
    ),
    "bilinear": lambda: Net(lambda m, x: m.b(x, x), b=nn.Bilinear(5, 5, 5)),
    "frozen": lambda: lin().requires_grad_(False),
    "convolution": lambda: Net(lambda m, x: m.c(x[:, None])[:, 0], c=nn.Conv1d(1, 1, 3, padding=1)),
    "unused": lambda: Net(lambda m, x: x, l=lin()),
    "attention": lambda: Net(
        lambda m, x: m.a(*3 * (x[:, :, None],))[0][:, :, 0],
        a=nn.MultiheadAttention(1, 1, batch_first=True),
    ),
}


def random_network(seed):
    torch.manual_seed(seed)
    names = random.Random(seed).choices(list(PARTS), k=3)
    model = nn.Sequential(*(m for name in names for m in (PARTS[name](), nn.Tanh())), lin())
    return names, model.double(), torch.randn(4, 5).double()


def check(names, model, x):
    expected = truth(model, x)
    subject = Subject(model, x, outputs=64)
    if {"bilinear", "attention"} & set(names):
        with pytest.raises(Refusal, match="known and used once"):
            _ = subject.ntk_trace
    else:
        torch.testing.assert_close(subject.ntk_trace, expected, rtol=1e-9, atol=1e-12)
    items = [*survey.views.features.feature_items(subject)]
    shares = [i.estimate for i in items if getattr(i, "quantity", "") == "NTK trace"]
    unread = [i for i in items if getattr(i, "what", "") == "NTK trace"]
    assert not unread, names
    low, high = sum(e.low for e in shares), sum(e.high for e in shares)
    assert low * (1 - 1e-9) <= float(expected.mean()) <= high * (1 + 1e-9), names


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_counted(part):
    torch.manual_seed(1)
    model = nn.Sequential(lin(), nn.Tanh(), PARTS[part](), nn.Tanh(), lin()).double()
    check([part], model, torch.randn(4, 5).double())


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(200), marks=pytest.mark.slow)])
def test_networks_of_random_parts(seeds):
    for seed in seeds:
        check(*random_network(seed))


COARSE = {"bfloat16", "float16"}  # made float64 here, like the others they are
MANY = {"wide-head", "transformers-llama", "transformers-t5", "transformers-bert"}  # of outputs
REFUSED = "known and used once|changed in place|must be differentiable|must have one row"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODELS) - COARSE - MANY))
def test_on_the_zoo_the_trace_is_that_of_autograd_or_refused(name):
    model, batch = MODELS[name]()
    subject = Subject(model.double().eval(), batch)
    owned = [p for p in model.parameters() if p.requires_grad]
    try:
        found = subject.ntk_trace
    except Refusal as reason:
        found = str(reason)
    if isinstance(found, str):
        assert re.search(REFUSED, found)
        return
    one = as_tensor(call(model, chosen(subject.batch, torch.tensor([1]))))[0].flatten()
    total = 0.0
    for y in one if one.requires_grad else ():
        grads = torch.autograd.grad(y, owned, retain_graph=True, allow_unused=True)
        total += sum(float(g.double().square().sum()) for g in grads if g is not None)
    assert float(found[1]) == pytest.approx(total, rel=1e-9)


def test_unaccounted_parameters_are_named():
    torch.manual_seed(0)
    model = nn.Sequential(lin(), nn.PReLU(), lin(), PARTS["bare scale"]())
    assert Subject(model, torch.randn(4, 5)).unaccounted == {"1.weight", "3.s"}
    assert set(Subject(model, torch.randn(4, 5)).leftovers) == {"1", "3"}


def test_modules_that_share_parameters_are_counted_at_the_first_of_them():
    """Also where only a third holds what is of both, and where what is shared is a frozen one."""
    model = nn.Sequential(*(lin() for _ in range(7)), nn.ReLU())
    model[3].weight, model[3].bias = model[0].weight, model[2].bias
    model[5].weight = model[4].weight.requires_grad_(False)
    model[6].bias = model[4].bias
    assert gaps_of.owners(model, []) == {"": "", "7": "7"} | {
        **{"0": "0", "1": "1", "2": "0", "3": "0", "4": "4", "5": "5", "6": "4"}
    }
    rest = gaps_of.leftovers(model, ["2.weight"], [])
    held = [p for i in (0, 2, 3) for p in model[i].parameters()]
    assert {name: {*map(id, own)} for name, own in rest.items()} == {"0": {*map(id, held)}}
    assert len(rest["0"]) == 4


def test_an_input_that_was_overwritten_is_not_used(as_users_see_it):
    class Overwrites(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = lin(), lin().requires_grad_(False)

        def forward(self, x):
            h = self.a(x)
            y = self.b(h)
            h.mul_(0)
            return y

    torch.manual_seed(0)
    model, x = Overwrites().double(), torch.randn(4, 5).double()
    with pytest.raises(Refusal, match="used once, got b"):
        _ = Subject(model, x).ntk_trace


class ChannelsFirst(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


class Places(nn.Embedding):
    """Reads ids for their number alone, as positions do."""

    def forward(self, ids):
        return self.weight[: ids.shape[1]].expand(len(ids), -1, -1)


def test_a_normaliser_that_permutes_counts_in_full():
    torch.manual_seed(0)
    parts = [nn.Conv2d(2, 4, 2), ChannelsFirst(4), nn.GELU(), nn.Flatten(), nn.Linear(16, 3)]
    model, x = nn.Sequential(*parts).double(), torch.randn(5, 2, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(Subject(model, x).ntk_trace, truth(model, x), rtol=1e-9, atol=0)
    assert "features" in {r.view for r in survey.profile(model, x).readings}


def test_an_embedding_that_looks_up_places_counts_in_full():
    torch.manual_seed(0)
    parts = {"words": nn.Embedding(90, 4), "places": Places(6, 4), "head": nn.Linear(24, 3)}
    run = lambda m, ids: m.head((m.words(ids) + m.places(ids)).tanh().flatten(1))
    model, ids = Net(run, **parts).double(), torch.randint(40, 90, (5, 6))
    torch.testing.assert_close(Subject(model, ids).ntk_trace, truth(model, ids), rtol=1e-9, atol=0)


class ActsInside(nn.BatchNorm1d):
    """Normalises and activates in one module, as timm's do."""

    def forward(self, x):
        return super().forward(x).relu()


def test_a_batch_normaliser_with_an_activation_inside_keeps_it():
    """Held at the statistics of the batch, it is the normaliser and the activation apart."""
    torch.manual_seed(0)
    inside = nn.Sequential(nn.Linear(5, 7), ActsInside(7), nn.Linear(7, 3)).double()
    apart = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 3)).double()
    apart[0], apart[3] = inside[0], inside[2]
    x = torch.randn(9, 5, dtype=torch.float64)
    one, other = Subject(inside, x, outputs=3), Subject(apart, x, outputs=3)
    torch.testing.assert_close(one.ntk_trace, other.ntk_trace, rtol=1e-9, atol=0)
    norm = lambda s: s.adjoints.adjoints["0"].norm_sq
    torch.testing.assert_close(norm(one), norm(other), rtol=1e-9, atol=0)
    assert inside[1].training
    assert not inside[1].running_mean.any()


@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"inplace-residual"}))  # has no gradient
def test_a_gradient_seen_through_one_vector_is_told_from_the_formulas_as_the_whole(
    name, monkeypatch
):
    whole = Subject(*MODELS[name]()).unaccounted
    monkeypatch.setattr(gaps_of, "LARGE", 1)
    assert Subject(*MODELS[name]()).unaccounted == whole


def test_a_run_that_was_asked_for_gaps_can_be_asked_for_more():
    model = network()
    x = torch.randn(4, 1, 6, 6, dtype=torch.float64)
    with Subject(model, x).scene.on_tape() as run:
        assert not gaps_of.Gaps.of(model).added(run)
        (slope,) = torch.autograd.grad(run.flat.sum(), [model[0].weight])
    assert bool(slope.any())
