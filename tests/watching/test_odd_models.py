"""Models of every kind train on as if nobody watched, and nothing is given up that need not be."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, rnn

from tests.models_zoo import Net
from tests.watching.made import Shelf, at_leisure, stack


def complex_weights():
    w = nn.Parameter(torch.randn(4, 4, dtype=torch.cfloat))
    return Net(lambda m, x: (m.l(x).to(torch.cfloat) @ m.w).abs(), w=w, l=nn.Linear(4, 4))


def two(forward):
    return Net(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4))


def tied():
    model = two(lambda m, x: m.b(torch.relu(m.a(x))))
    model.b.weight = model.a.weight
    return model


def choosing():
    ways = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
    return Net(lambda m, x: m.ways[int(torch.randint(0, 3, ()))](x), ways=ways)


def rows(*shape):
    return lambda model: model(torch.randn(*shape))


PACKED = lambda model: (
    model(rnn.pack_padded_sequence(torch.randn(3, 5, 4), [5, 3, 2], batch_first=True))[0].data
)
MODELS = {
    "lstm": (lambda: nn.LSTM(4, 8, 2, batch_first=True), lambda m: m(torch.randn(3, 5, 4))[0]),
    "gru": (lambda: nn.GRU(4, 8, bidirectional=True), lambda m: m(torch.randn(5, 3, 4))[0]),
    "packed": (lambda: nn.LSTM(4, 8, batch_first=True), PACKED),
    "complex": (complex_weights, rows(3, 4)),
    "tied": (tied, rows(3, 4)),
    "one number": (lambda: Net(lambda m, x: m.p * x, p=nn.Parameter(torch.tensor(1.0))), rows(3)),
    "no layer": (nn.PReLU, rows(3, 4)),
    "a batch of one": (lambda: stack(4, 3, 1), rows(1, 4)),
    "no batch": (lambda: stack(4, 3, 1), rows(4)),
    "an empty batch": (lambda: stack(4, 3), lambda m: m(torch.randn(0, 4)).sum()),
    "one dimension": (lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4)), rows(3, 2, 20)),
    "three": (lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2)), rows(2, 1, 4, 4, 4)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(2, 4, 3)), rows(3, 2, 6, 6)),
    "groups": (lambda: nn.Sequential(nn.Conv2d(4, 8, 3, groups=4)), rows(3, 4, 6, 6)),
    "bags": (lambda: nn.Sequential(nn.EmbeddingBag(10, 4), nn.Linear(4, 2)),
             lambda m: m(torch.randint(0, 10, (3, 5)))),
    "bilinear": (lambda: nn.Bilinear(3, 4, 2), lambda m: m(torch.randn(5, 3), torch.randn(5, 4))),
    "weight norm": (lambda: parametrizations.weight_norm(nn.Linear(4, 3)), rows(5, 4)),
    "spectral norm": (lambda: parametrizations.spectral_norm(nn.Linear(4, 3)), rows(5, 4)),
    "bfloat16": (lambda: nn.Linear(4, 3).bfloat16(), lambda m: m(torch.randn(5, 4).bfloat16())),
    "float16": (lambda: nn.Linear(4, 3).half(), lambda m: m(torch.randn(5, 4).half())),
    "keywords": (lambda: Net(lambda m, x: {"y": m.l(input=x)}, l=nn.Linear(4, 3)),
                 lambda m: m(x=torch.randn(5, 4))["y"]),
    "in place": (lambda: two(lambda m, x: m.b(m.a(x).relu_())), rows(5, 4)),
    "choosing": (choosing, rows(5, 4)),
    "transformer": (lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True),
                    lambda m: m(torch.randn(2, 3, 16), torch.randn(2, 4, 16))),
    "nested": (lambda: nn.Linear(4, 3), lambda m: m(torch.nested.nested_tensor(
        [torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)).values()),
}  # fmt: skip
GIVEN_UP = {  # torch has no norms of nested tensors, packed sequences are no tensors
    "nested": {"activations", "representations"},
    "packed": {"activations"},
    "one number": {"activations"},
    "no layer": {"activations"},
}


def trained(model, call, *, shelf=None):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    watching = None if shelf is None else at_leisure(model, optimizer, sinks=[shelf])
    torch.manual_seed(1)
    for _ in range(5):
        optimizer.zero_grad()
        call(model).square().mean().backward()
        optimizer.step()
    if watching is not None:
        watching.close()
    return [*(p.detach() for p in model.parameters()), *model.buffers(), torch.rand(3)]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_on_as_if_nobody_watched(name):
    make, call = MODELS[name]
    torch.manual_seed(0)
    model = make()
    alone = trained(copy.deepcopy(model), call)
    shelf = Shelf()
    watched = trained(model, call, shelf=shelf)
    assert all(torch.equal(a, b) for a, b in zip(alone, watched, strict=True))
    quiet = "nothing of it is heard in this model"
    given_up = {s.what for look in shelf.looks for s in look.skipped if s.why != quiet}
    assert given_up <= GIVEN_UP.get(name, set())
    assert any(r.quantity == "gradient norm" for r in shelf.readings())
