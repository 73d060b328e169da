"""Readings of the setup are what they are defined as, on models of every kind."""

import copy

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from sigmascope import sources, survey
from sigmascope.models import Subject
from sigmascope.survey.views.setup import _distinct, sequence_items, untold_share
from sigmascope.survey.views.task import target_rows
from tests.models_zoo import Net


def read(model, x, y=None, loss=None):
    measured = survey.profile(model, x, targets=y, loss=loss, views=["setup"])
    return {(r.site, r.quantity): r.estimate.value for r in measured.readings}


def test_gain_is_of_differences_and_ignores_biases():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    with torch.no_grad():
        for layer, scale in zip(model, (2.0, 0.5), strict=True):
            nn.init.eye_(layer.weight).mul_(scale)
            nn.init.constant_(layer.bias, 100.0)
    found = read(model, torch.randn(50, 3))
    assert found["0", "gain"] == pytest.approx(2.0)
    assert found["1", "gain"] == pytest.approx(0.5)
    assert found["1", "written variation"] < 0.03


def test_copies_are_counted():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    x = torch.randn(30, 4)
    assert read(model, x)["2", "distinct units"] == 1.0
    with torch.no_grad():
        model[0].weight[4:] = model[0].weight[:4]
        model[0].bias[4:] = model[0].bias[:4]
    assert read(model, x)["2", "distinct units"] == 0.5
    nn.init.constant_(model[0].weight, 0.1)
    nn.init.constant_(model[0].bias, 0.1)
    different = read(model, x)  # their gradients are, by what the next layer makes of them
    assert different["0.weight", "distinct units"] == 1.0
    assert different["2", "distinct units"] == 1 / 8
    nn.init.constant_(model[2].weight, 0.1)
    assert read(model, x)["0.weight", "distinct units"] == 1 / 8


def test_rows_that_are_equal_by_design_are_no_copies():
    """As the decays of a state space model: equal rows that meet different channels."""

    torch.default_generator.manual_seed(0)
    model, x = (
        nn.Sequential(
            nn.Linear(4, 6),
            Net(
                lambda m, x: (x[..., None] * -m.log.exp()).sum(-1) + 0 * m.table.sum(),
                log=nn.Parameter(torch.arange(1.0, 5.0).log().expand(6, 4).clone()),
                table=nn.Parameter(torch.arange(5.0).expand(6, 5).clone(), requires_grad=False),
            ),
            nn.Linear(6, 2),
        ),
        torch.randn(30, 4),
    )
    found = read(model, x)
    assert found["1.log", "distinct units"] == 1.0
    assert ("1.table", "distinct units") not in found


def test_gradients_are_those_of_autograd():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    found = read(model, x, y, F.cross_entropy)
    F.cross_entropy(model(x), y).backward()
    weight = model[0].weight
    relative = weight.grad.norm() / weight.detach().norm()
    assert found["0.weight", "relative gradient"] == pytest.approx(relative.item(), rel=1e-5)


def test_zeros_and_what_is_frozen():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    nn.init.zeros_(model[2].weight)
    model[0].bias.requires_grad_(False)
    found = read(model, x, y, F.cross_entropy)
    assert found["2.weight", "gradient of a zero weight"] > 0
    assert found["0.weight", "relative gradient"] == 0
    assert found["0.bias", "frozen entries"] == 8


@pytest.mark.parametrize(("training", "touched"), [(True, False), (False, True), (False, False)])
def test_untouched_statistics(training, touched):
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    if touched:
        model(torch.randn(30, 4))
    model.train(training)
    found = read(model, torch.randn(30, 4))
    assert (("1", "batches seen") in found) == (not training and not touched)


def test_denormal_numbers_are_counted():
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.Linear(8, 3))
    nn.init.constant_(model[0].weight, 1e-20)
    assert read(model, torch.full((6, 4), 1e-20))["0", "denormal entries"] == 48


def test_zeros_that_other_zeros_hold_are_told_from_those_that_constants_do():
    class Branch(nn.Module):
        def __init__(self, mask):
            super().__init__()
            self.a, self.b = nn.Linear(4, 6, bias=False), nn.Linear(6, 4, bias=False)
            self.mask = nn.Parameter(torch.full((4,), mask), requires_grad=False)
            nn.init.zeros_(self.a.weight)
            nn.init.zeros_(self.b.weight)

        def forward(self, x):
            return x + self.mask * self.b(self.a(x))

    torch.default_generator.manual_seed(0)
    x, y = torch.randn(20, 4), torch.randint(3, (20,))
    for mask, form in ((1.0, ""), (0.0, "cut")):
        model = nn.Sequential(Branch(mask), nn.Linear(4, 3))
        measured = survey.profile(model, x, targets=y, loss=F.cross_entropy, views=["setup"])
        forms = {r.site: r.form for r in measured.series("gradient of a zero weight")}
        assert forms["0.a.weight"] == forms["0.b.weight"] == form


class Gated(nn.Module):
    """Blocks behind gates, all of which may begin at zero, as may what is read of them."""

    def __init__(self, blocks, closed, mask):
        super().__init__()
        self.first, self.mask = nn.Linear(4, 6), mask
        parts = lambda: nn.ModuleDict({k: nn.Linear(6, 6, bias=False) for k in ("a", "b", "gate")})
        self.blocks = nn.ModuleList(parts() for _ in range(blocks))
        self.last = nn.Linear(6, 3)
        for name, p in self.named_parameters():
            if name in closed:
                nn.init.zeros_(p)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + self.mask * block["gate"](x) * block["b"](torch.tanh(block["a"](x)))
        return self.last(x)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_what_is_said_of_zeros_is_what_training_does_with_them(data):
    blocks = data.draw(st.integers(1, 2))
    torch.default_generator.manual_seed(0)
    names = [n for n, p in Gated(blocks, (), 1.0).named_parameters() if p.ndim > 1]
    closed = data.draw(st.sets(st.sampled_from(names), min_size=1))
    model = Gated(blocks, closed, data.draw(st.sampled_from([1.0, 1.0, 0.0])))
    x, y = torch.randn(20, 4), torch.randint(3, (20,))
    measured = survey.profile(model, x, targets=y, loss=F.cross_entropy, views=["setup"])
    told = {r.site: r for r in measured.series("gradient of a zero weight") if r.form != "bias"}
    own = dict(model.named_parameters())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(12):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert told.keys() == closed
    for name, r in told.items():
        moves = r.estimate.value > 0 or r.form == "behind zeros"
        assert bool(own[name].any()) == moves, (name, r.form)


def behind_zeros():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 4),
        Net(lambda m, x: m.lstm(x)[0][:, -1], lstm=nn.LSTM(4, 6, batch_first=True)),
        nn.Linear(6, 3),
    )
    nn.init.constant_(model[1].lstm.weight_ih_l0, -0.0)
    return model, torch.randn(20, 5, 4), torch.randint(3, (20,))


def test_what_lies_behind_zeros_is_seen_without_a_copy_of_the_model(monkeypatch):
    def refused(*_):
        raise MemoryError

    model, x, y = behind_zeros()
    monkeypatch.setattr(copy, "deepcopy", refused)
    measured = survey.profile(model, x, targets=y, loss=F.cross_entropy, views=["setup"])
    forms = {r.site: r.form for r in measured.series("relative gradient")}
    assert forms["0.weight"] == forms["0.bias"] == "behind zeros"
    assert forms["2.weight"] == ""


@pytest.mark.parametrize("end", ["success", "failure"])
def test_zeros_are_where_they_were_afterwards(end):
    model, x, y = behind_zeros()
    held = model[1].lstm.weight_ih_l0
    seen = set()

    def look(*_):
        seen.add(bool(held.any()))
        if end == "failure" and held.any():
            raise ValueError("not with these")

    model[2].register_forward_hook(look)
    places = [p.data_ptr() for p in model.parameters()]
    measured = survey.profile(model, x, targets=y, loss=F.cross_entropy, views=["setup"])
    assert seen == {False, True}  # it was run with other numbers
    assert any("not with these" in s.why for s in measured.skipped) == (end == "failure")
    assert [p.data_ptr() for p in model.parameters()] == places
    assert not held.any()
    assert held.signbit().all()
    assert held is model[1].lstm._flat_weights[0]


# ------------------------------------------------------------------------------
# Readings of what outputs depend on next to direct computations.


def readings(model, x):
    torch.manual_seed(0)
    found = survey.profile(model, x, views=["setup"])
    return {(r.site, r.quantity): r for r in found.readings}


def towers():
    return Net(lambda m, x, y: m.a(x) @ m.b(y).mT, a=nn.Linear(5, 4), b=nn.Linear(5, 4))


def test_samples_that_mix():
    torch.manual_seed(0)
    x = torch.randn(12, 5)
    r = readings(
        Net(
            lambda m, x: m.b(m.a(x).t().reshape(x.shape).tanh()),
            a=nn.Linear(5, 5),
            b=nn.Linear(5, 3),
        ),
        x,
    )["(model)", "dependence on other samples"]
    assert r.estimate.value > 0.1
    assert r.form == "rows"
    r = readings(towers(), (x, x.flip(0)))["(model)", "dependence on other samples"]
    assert r.form == "pairs"
    plain = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    assert ("(model)", "dependence on other samples") not in readings(plain, x)


def test_layers_without_use():
    class Some(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 5)
            self.tied, self.off = nn.Linear(5, 5), nn.Linear(5, 5).requires_grad_(False)
            self.tied.weight = self.a.weight

        def forward(self, x):
            return nn.functional.linear(self.a(x).relu(), self.b.weight)

    found = readings(Some(), torch.randn(6, 5))
    assert [site for site, q in found if q == "times called"] == ["c"]


def test_statistics_that_do_not_fit():
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(6)
    model = nn.Sequential(nn.Linear(5, 6), norm, nn.ReLU(), nn.Linear(6, 3))
    x = torch.randn(200, 5)
    for _ in range(200):
        model(x)
    fits = readings(model.eval(), x)["1", "normalised square"].estimate.value
    assert fits == pytest.approx(1.0, abs=0.1)
    norm.running_var.mul_(0.04)
    assert readings(model, x)["1", "normalised square"].estimate.value == pytest.approx(
        25 * fits, 0.05
    )
    assert ("1", "normalised square") not in readings(model.train(), x)
    norm.reset_running_stats()  # which is another fault
    assert ("1", "normalised square") not in readings(model.eval(), x)


def test_batch_statistics_are_counted():
    parts = [nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.BatchNorm1d(6), nn.Linear(6, 3)]
    model, x = nn.Sequential(*parts), torch.randn(9, 5)
    assert readings(model, x)["(model)", "batch statistics"].estimate.value == 2.0
    assert ("(model)", "batch statistics") not in readings(model.eval(), x)


def test_dropout_and_pairs_are_read():
    model = nn.Sequential(nn.Linear(5, 300), nn.Dropout(0.9), nn.Linear(300, 3))
    found = readings(model, torch.randn(9, 5))
    assert found["1", "dropped share"].estimate.value == pytest.approx(0.9, abs=0.03)
    pair = found["2", "spare width"]
    assert pair.form == "after 0"
    assert pair.estimate.value == 100.0


# ------------------------------------------------------------------------------
# The step factor is read of recurrent layers, and of nothing else.


class Reads(nn.Module):
    def __init__(self, layer, packs=False):
        super().__init__()
        self.layer, self.packs = layer, packs
        self.last = nn.Linear(layer.hidden_size, 2)

    def forward(self, x):
        if self.packs:
            lengths = torch.full((len(x),), x.shape[1])
            return self.last(self.layer(pack_padded_sequence(x, lengths, batch_first=True))[1][0])
        return self.last(self.layer(x)[0][:, -1])


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_factor_of_each_step_is_read(factor):
    layer = nn.RNN(3, 4, nonlinearity="relu", batch_first=True)
    with torch.no_grad():
        layer.weight_ih_l0.abs_()
        layer.weight_hh_l0.copy_(factor * torch.eye(4))
        layer.bias_ih_l0.zero_()
        layer.bias_hh_l0.zero_()
    found = readings(Reads(layer), torch.rand(12, 20, 3))
    assert found["layer", "steps"].estimate.value == 20
    e = found["layer", "step factor"].estimate
    assert e.low <= factor * (1 + 1e-9)
    assert e.high >= factor * (1 - 1e-9)
    assert e.value == pytest.approx(factor, rel=1e-6)


def test_its_interval_holds_the_norm_of_the_derivative():
    for seed in range(8):
        torch.manual_seed(seed)
        model, x = Reads(nn.LSTM(3, 16, batch_first=True)), torch.randn(16 + seed, 30, 3)
        e = readings(model, x)["layer", "step factor"].estimate
        layer, rows = model.layer.double(), x.double().requires_grad_()
        total = torch.zeros(16 + seed, 30, dtype=torch.float64)
        last = layer(rows)[0][:, -1]
        for unit in range(16):
            (g,) = torch.autograd.grad(last[:, unit].sum(), rows, retain_graph=True)
            total += g.square().sum(2)
        logs = total.log().mean(0).flip(0) / 2
        back = torch.arange(30.0).double() - 14.5
        exact = float((back @ logs / back.square().sum()).exp())
        assert e.low <= exact <= e.high
        assert e.high / e.low < 1 + 1e-9


def test_what_is_short_or_packed_has_none():
    layer = nn.GRU(3, 4, batch_first=True)
    assert ("layer", "step factor") not in readings(Reads(layer), torch.rand(12, 7, 3))
    assert ("layer", "step factor") in readings(Reads(layer), torch.rand(12, 8, 3))
    assert ("layer", "step factor") not in readings(Reads(layer, packs=True), torch.rand(12, 9, 3))
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert not [q for _, q in readings(plain, torch.rand(12, 3)) if q == "step factor"]


@pytest.mark.parametrize(("off", "factor"), [(3, 0.5), (5, 0.0)])
def test_samples_that_pass_nothing_back_count_where_they_are_most(off, factor):
    layer = nn.RNN(1, 1, nonlinearity="relu", batch_first=True, bias=False)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1.0)
        layer.weight_hh_l0.fill_(0.5)
    x = torch.ones(8, 20, 1)
    x[:off] = -1.0
    found = readings(Reads(layer), x)["layer", "step factor"].estimate
    assert found.value == pytest.approx(factor, abs=1e-9)


# ------------------------------------------------------------------------------
# Samples that come more than once are counted, and what that leaves untold is exact.


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (torch.eye(5), 5),
        (torch.ones(5, 5), 1),
        (torch.eye(5)[[0, 0, 1, 1, 1]], 2),
        (1 + 1e-7 * torch.eye(5), 1),  # rounding
        (1 + 1e-2 * torch.eye(5), 5),
        ((torch.ones(5, 5), torch.eye(5)), 5),  # in one part of the batch they differ
        ((torch.eye(5)[[0, 0, 1, 1, 1]], torch.eye(5)[[0, 1, 0, 0, 0]]), 3),
    ],
)
def test_how_many_samples_differ(batch, count):
    model = towers() if isinstance(batch, tuple) else nn.Linear(5, 4)
    seen = readings(model, batch)["(inputs)", "distinct samples"]
    assert seen.estimate.value == count


def test_ids_are_samples_too():
    ids = torch.tensor([[0, 1], [0, 1], [1, 0]])
    model = nn.Sequential(nn.Embedding(3, 4), nn.Flatten(), nn.Linear(8, 2))
    assert readings(model, ids)["(inputs)", "distinct samples"].estimate.value == 2


class Graph(nn.Module):
    """Nodes that are told apart by their edges alone."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(1, 6), nn.Linear(6, 2)

    def forward(self, x, edges):
        degree = torch.zeros(len(x), 1).index_add_(0, edges[0], torch.ones(edges.shape[1], 1))
        return self.b(self.a(x * degree).relu())


def test_parts_that_are_not_counted_by_samples_may_tell_them_apart():
    edges = torch.tensor([[0, 0, 1, 2], [1, 2, 3, 4]])
    seen = readings(Graph(), (torch.ones(5, 1), edges))["(inputs)", "distinct samples"].estimate
    assert (seen.value, seen.low, seen.high) == (1, 1, 5)
    alone = readings(nn.Linear(5, 2), torch.ones(4, 5))["(inputs)", "distinct samples"].estimate
    assert (alone.low, alone.high) == (1, 1)


def untold(x, y, loss=nn.functional.cross_entropy):
    found = survey.profile(
        nn.Sequential(nn.Linear(x.shape[1], 3)), x, targets=y, loss=loss, views=["setup"]
    )
    series = found.series("contradicted targets")
    return series[0].estimate if series else None


def test_equal_samples_with_other_targets():
    x = torch.eye(5)[[0, 0, 1, 1, 2, 2]]
    assert untold(x, torch.tensor([0, 0, 1, 1, 2, 2])).value == pytest.approx(0.0, abs=1e-12)
    assert untold(x, torch.tensor([0, 1, 0, 1, 0, 1])).value == pytest.approx(1.0)
    # one group of three has two classes: 2/6 of its 1, of 2/3 in all, for each sample
    assert untold(x, torch.tensor([0, 1, 1, 1, 2, 2])).value == pytest.approx((1 / 6) / (11 / 18))
    assert untold(torch.eye(6), torch.tensor([0, 1, 0, 1, 0, 1])) is None  # none comes twice
    assert untold(torch.ones(6, 5), torch.tensor([0, 1, 0, 1, 0, 1])) is None  # all the same
    values = untold(
        x,
        torch.tensor([[0.0, 1, 2]]).repeat(6, 1) * torch.arange(6)[:, None],
        nn.functional.mse_loss,
    )
    assert values.value == pytest.approx(6 * 0.25 / 17.5)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=3, max_size=40))
def test_no_function_of_the_inputs_tells_more(pairs):
    groups = torch.tensor([g for g, _ in pairs]).unique(return_inverse=True)[1]
    wanted = target_rows(torch.tensor([y for _, y in pairs]), len(pairs))
    if wanted is None:
        return
    one_hot = torch.eye(int(groups.max()) + 1, dtype=torch.float64)[groups]
    best = one_hot @ torch.linalg.lstsq(one_hot, wanted).solution
    share = float((wanted - best).square().sum() / wanted.square().sum())
    assert untold_share(groups, wanted) == pytest.approx(share, abs=1e-9)


# ------------------------------------------------------------------------------
# Readings of sequence models next to direct computations.


N, T, V, D = 8, 12, 11, 16


class Model(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.read, self.cell = nn.Embedding(V, D), nn.GRU(D, D, 1, batch_first=True)
        self.back = None if causal else nn.GRU(D, D, 1, batch_first=True)
        self.write = nn.Linear(D, V)

    def forward(self, ids):
        x = self.read(ids)
        h = self.cell(x)[0]
        if self.back is not None:
            h = h + self.back(x.flip(1))[0].flip(1)
        return self.write(h)


def loss(o, t):
    return F.cross_entropy(o.flatten(0, 1), t.flatten())


def text():
    g = torch.Generator().manual_seed(0)
    return torch.randint(1, V, (N, T + 1), generator=g)


def read_sequences(model, x, t, by=loss):
    torch.manual_seed(0)
    found = survey.profile(model, x, targets=t, loss=by, views=["setup"])
    return {r.quantity: r for r in found.readings if r.site.startswith("(")}


def test_a_language_model():
    rows = text()
    found = read_sequences(Model(), rows[:, :-1], rows[:, 1:])
    assert found["next inputs"].estimate.value == 1.0
    assert found["next inputs"].site == "(input)"
    assert found["targets that are inputs"].estimate.value < 0.3
    assert found["dependence on later inputs"].estimate.value == 0.0
    assert "counted padding" not in found
    assert (
        read_sequences(Model(causal=False), rows[:, :-1], rows[:, 1:])[
            "dependence on later inputs"
        ].estimate.value
        > 1e-2
    )


def test_a_loss_that_shifts_by_itself():
    rows = text()[:, :-1]
    by = lambda o, t: loss(o[:, :-1], t[:, 1:])
    found = read_sequences(Model(), rows, rows, by)
    assert found["next inputs"].estimate.value == 1.0
    assert found["targets that are inputs"].estimate.value < 0.3


@pytest.mark.parametrize(("ahead", "skipped"), [(1, False), (2, True)])
def test_targets_that_are_two_places_ahead(ahead, skipped):
    rows = text()
    found = read_sequences(Model(), rows[:, : T + 1 - ahead], rows[:, ahead:])
    assert ("skipped inputs" in found) == skipped
    assert not skipped or found["skipped inputs"].estimate.value == 1.0


def test_copies_have_no_order_to_ask_for():
    rows = text()[:, :-1]
    found = read_sequences(Model(), rows, rows)
    assert found["targets that are inputs"].estimate.value == 1.0
    assert "dependence on later inputs" not in found


def test_filling_counts_unless_it_is_left_out():
    rows = text()
    for row, length in enumerate((4, 6, 8, 10, 5, 7, 9, 12)):
        rows[row, length:] = 0
    x, t = rows[:, :-1], rows[:, 1:]
    found = read_sequences(Model(), x, t)["counted padding"]
    assert found.form == "id 0"
    assert found.estimate.value == pytest.approx(float((t == 0).double().mean()), abs=0.03)
    assert "counted padding" not in read_sequences(Model(), x, t.masked_fill(t == 0, -100))
    by = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten(), ignore_index=0)
    assert "counted padding" not in read_sequences(Model(), x, t, by)


@pytest.mark.parametrize(
    "loss", [lambda o, t: 0 * o.sum(), lambda o, t: o.argmax(2).double().std()]
)
def test_of_a_loss_that_looks_at_no_place_nothing_is_told(loss):
    rows = text()
    subject = Subject(Model(), rows[:, :-1], rows[:, 1:], loss)
    assert not [*sequence_items(subject)]


def test_other_tasks_are_not_spoken_of():
    digits = sources.open_data("digits", samples=32)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    found = read_sequences(model, digits.inputs, digits.targets, F.cross_entropy)
    assert not {"next inputs", "counted padding", "dependence on later inputs"} & set(found)


def test_normalisers_that_are_called_again_are_sized_by_the_mean_of_their_statistics():
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(5)
    model = Net(lambda m, x: m.last(m.norm(x) + m.norm(9 * x + 4)), norm=norm, last=nn.Linear(5, 2))
    x = torch.randn(40, 5)
    found = readings(model, x)
    columns = [x.double(), 9 * x.double() + 4]
    centre = sum(c.mean(0) for c in columns) / 2
    scale = sum(c.var(0) for c in columns) / 2 + norm.eps
    for site, c in zip(("norm", "norm#2"), columns, strict=True):
        sizes = [((c - m).square().mean(0) / scale).median() for m in (centre, c.mean(0))]
        farthest = max(sizes, key=lambda s: abs(float(s.log())))
        value = found[site, "shared square"].estimate.value
        assert value == pytest.approx(float(farthest), rel=1e-4)
    for other in (
        Net(lambda m, x: m.last(m.norm(x)), norm=norm, last=nn.Linear(5, 2)),
        model.eval(),
    ):
        assert "shared square" not in {q for _, q in readings(other, x)}


@pytest.mark.parametrize(
    ("seen", "mean", "training", "told"),
    [(0, 0.0, False, True), (None, 0.0, False, True), (5, 0.0, False, False),
     (0, 0.1, False, False), (0, 0.0, True, False)],
)  # fmt: skip
def test_running_statistics_that_no_batch_has_made_are_told(seen, mean, training, told):
    norm = nn.BatchNorm1d(5)
    norm.running_mean.fill_(mean)
    norm.num_batches_tracked = None if seen is None else torch.tensor(seen)
    model = nn.Sequential(nn.Linear(5, 5), norm, nn.Linear(5, 2)).train(training)
    found = readings(model, torch.randn(12, 5))
    assert (("1", "batches seen") in found) is told


def test_a_recurrent_layer_that_is_called_again_is_read_once():
    torch.manual_seed(0)
    model = Net(
        lambda m, x: m.last(m.rnn(m.rnn(m.first(x))[0])[0][:, -1]),
        first=nn.Linear(4, 4),
        rnn=nn.RNN(4, 4, batch_first=True),
        last=nn.Linear(4, 2),
    )
    found = readings(model, torch.randn(12, 9, 4))
    assert [site for site, q in found if q == "steps"] == ["rnn"]


@pytest.mark.parametrize(("first", "steps"), [(True, 9), (False, 12)])
def test_steps_are_counted_along_their_own_dimension(first, steps):
    torch.manual_seed(0)
    model = Net(lambda m, x: m.last(m.rnn(x)[0]), rnn=nn.GRU(4, 4, batch_first=first),
                last=nn.Linear(4, 2))  # fmt: skip
    x = torch.randn(12, 9, 4)
    found = survey.profile(model, x, views=["setup"], batch_dim=0 if first else 1)
    (read,) = found.series("steps")
    assert read.estimate.value == steps


def test_denormal_numbers_are_counted_and_zeros_are_none():
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Linear(3, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1e-40, 0], [0.0, 0], [1, 1]]))
    found = readings(model, torch.ones(4, 2))
    assert found["0", "denormal entries"].estimate.value == 4
    assert ("1", "denormal entries") not in found


def test_samples_that_reach_a_layer_as_zeros_are_silent():
    model = nn.Sequential(nn.Linear(1, 3, bias=False), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0], [2], [3]]))
    found = readings(model, torch.tensor([[1.0], [-1], [2], [3]]))
    assert found["2", "silent samples"].estimate.value == 0.25


def test_frozen_weights_are_told_with_their_form():
    model = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    found = readings(model, torch.randn(6, 5))
    told = {site: (r.estimate.value, r.form) for (site, q), r in found.items()
            if q == "frozen entries"}  # fmt: skip
    assert told == {"0.weight": (15.0, "matrix"), "0.bias": (3.0, "")}


@pytest.mark.parametrize(("varying", "share"), [(0, None), (1, None), (2, 1.0)])
def test_a_unit_that_varies_alone_is_no_copy_of_any(varying, share):
    units = torch.ones(6, 3)
    units[:, :varying] = torch.randn(6, varying)
    assert _distinct(units) == share


def test_layers_beyond_one_that_overflows_are_measured_all_the_same():
    class Kept(nn.Linear):
        def forward(self, x):
            return super().forward(x.clamp(-1, 1))

    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), Kept(4, 5), nn.Linear(5, 2))
    with torch.no_grad():
        model[0].weight[:2] = 3e38
    found = read(model, 10 * torch.randn(20, 3))
    assert {site for site, quantity in found if quantity == "written variation"} == {"1", "2"}
    assert {site for site, quantity in found if quantity == "gain"} == {"2"}
    assert {site for site, quantity in found if quantity == "distinct units"} == {"2"}
