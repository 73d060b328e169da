"""A program's samples, targets and loss."""

import pytest
import torch
from fingerprints import differences, fingerprint
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset

import sigmascope as ss
from sigmascope.core.records import Reading
from sigmascope.diagnosis.programs import Program, fitting_loss
from sigmascope.diagnosis.programs.data import taken
from sigmascope.diagnosis.programs.opened import last_batch_items, opened, order_items, unseen
from tests.models_zoo import Net

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(11, 4), nn.Linear(4, 11)

    def forward(self, input_ids, attention_mask=None):
        return self.head(self.words(input_ids))


IDS = torch.randint(11, (6, 5), generator=torch.Generator().manual_seed(1))


def test_samples_are_taken_and_the_loss_fits_them():
    known = opened(Program(nn.Linear(3, 4), (X, torch.arange(20) % 4)), samples=8)
    assert (len(known.batch), known.size, known.unfit) == (8, 20, "")
    assert known.loss is fitting_loss
    assert set(known.task) == {"targets", "loss", "batch_dim"}


def test_language_models_get_the_next_tokens():
    for data in (IDS, {"input_ids": IDS, "labels": IDS.clone()}):
        known = opened(Program(Language(), data), samples=8)
        assert torch.equal(known.targets[:, :-1], IDS[:, 1:])
        assert bool((known.targets[:, -1] == -100).all())
    masked = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    masked["attention_mask"][:, 3:] = 0
    known = opened(Program(Language(), masked), samples=8)
    assert int((known.targets != -100).sum()) == 6 * 2


class Pair(Language):
    """Reads one text and tells another."""

    def forward(self, input_ids, decoder_input_ids, decoder_attention_mask=None):
        return self.head(self.words(decoder_input_ids) + self.words(input_ids).mean(1, True))


class LanguageForMaskedLM(Language):
    """One that fills in what is hidden, by a name of Hugging Face's kind."""


class Own(Language):
    """A user's own of Hugging Face's base class, which says so unless it is told how."""

    def can_generate(self):
        return False


def test_where_no_next_token_is_told_none_is_asked_for():
    pair = {"input_ids": IDS, "decoder_input_ids": IDS.flip(0)}
    known = opened(Program(Pair(), pair), samples=8)
    assert torch.equal(known.targets[:, :-1], IDS.flip(0)[:, 1:])
    counts = (torch.arange(5) < 3).long().expand_as(IDS)
    known = opened(Program(Pair(), {**pair, "decoder_attention_mask": counts}), samples=8)
    assert int((known.targets != -100).sum()) == 6 * 2
    assert opened(Program(LanguageForMaskedLM(), IDS), samples=8).targets is None
    labelled = {"input_ids": IDS, "labels": IDS.clone()}
    assert torch.equal(opened(Program(LanguageForMaskedLM(), labelled), samples=8).targets, IDS)
    for data in (IDS, labelled):
        assert torch.equal(opened(Program(Own(), data), samples=8).targets[:, :-1], IDS[:, 1:])


def test_targets_that_a_user_gives_are_taken_as_they_are():
    known = opened(Program(Language(), (IDS, IDS)), samples=8)
    assert torch.equal(known.targets, IDS)  # which a rule may have a word on


def test_why_targets_do_not_fit():
    known = opened(Program(nn.Linear(3, 4), (X, torch.arange(20)), F.cross_entropy), samples=20)
    assert "classes from 0 to 3" in known.unfit
    assert set(known.task) == {"batch_dim"}
    known = opened(Program(nn.Linear(3, 1), (X, X[:, 0]), F.mse_loss), samples=20)
    assert "broadcast" in known.unfit


def test_samples_that_were_not_taken_are_others():
    targets = torch.arange(20.0)[:, None]
    for data in (
        (X, targets),
        TensorDataset(X, targets),
        DataLoader(TensorDataset(X, targets), batch_size=4, shuffle=True),
    ):
        program = Program(nn.Linear(3, 1), data)
        known = opened(program, samples=8)
        more = unseen(program, known)
        assert more is not None
        own, others = set(known.targets.flatten().tolist()), set(more[1].flatten().tolist())
        assert len(others) == 8
        assert not own & others
        assert torch.equal(more[0], X[more[1].flatten().long()])


def test_where_there_are_no_others_that_is_known():
    program = Program(nn.Linear(3, 1), (X, torch.arange(20.0)[:, None]))
    assert unseen(program, opened(program, samples=20)) is None
    language = Program(Language(), IDS)  # targets were made, and are none of its data
    assert unseen(language, opened(language, samples=3)) is None
    noisy = [(torch.randn(3), torch.randn(1)) for _ in range(20)]

    class Drawn(TensorDataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            noisy[index] = (noisy[index][0] + 1, noisy[index][1])
            return noisy[index]

    drawn = Program(nn.Linear(3, 1), Drawn(X))
    assert unseen(drawn, opened(drawn, samples=8)) is None


@pytest.mark.parametrize("hole", [torch.nan, torch.inf])
def test_targets_that_a_loss_leaves_out_are_no_error_of_the_program(hole):
    def known(out, y):
        there = y.isfinite()
        return (out - y.nan_to_num(0, 0, 0)).square()[there].mean()

    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4, generator=g)
    y = x @ torch.randn(4, 3, generator=g)
    y[::5, 1] = hole
    found = opened(Program(nn.Linear(4, 3), (x, y), known, "adam"), samples=64)
    assert (found.unfit, found.targets) == ("", None)
    assert found.unread.startswith("13 targets")
    plain = opened(Program(nn.Linear(4, 3), (x, y), "mse_loss", "adam"), samples=64)
    assert "finite" in plain.unfit


MANY, KIND = torch.randn(320, 6), torch.randint(0, 3, (320,))


@pytest.mark.parametrize(
    ("rows", "data", "size"),
    [
        (32, (MANY, KIND), None),  # the usual size
        (20, (MANY, KIND), 20),
        (20, DataLoader(TensorDataset(MANY, KIND), batch_size=20), None),
        (320, (MANY, KIND), 320),  # all at once, as the nodes of a graph
    ],
)
def test_as_many_samples_are_taken_as_the_user_takes_at_once(rows, data, size):
    model = Net(lambda self, x: self.layer(x).view(rows, 3), layer=nn.Linear(6, 3))
    known = opened(Program(model, data, batch_size=size), samples=128)
    assert len(known.batch) == rows
    assert known.targets is not None
    assert len(known.targets) == rows


G = torch.Generator().manual_seed(0)
CLASSES = torch.arange(240).remainder(3)
POINTS = torch.randn(240, 4, generator=G) + torch.eye(4)[CLASSES]
SORTED = TensorDataset(POINTS[CLASSES.argsort(stable=True)], CLASSES.sort().values)


def alike(data):
    return {i.quantity: i.estimate.value for i in order_items(data) if isinstance(i, Reading)}


def network(*inner):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), *inner, nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize("size", [2, 16])  # of 80 of each
def test_sorted_classes_are_seen_batch_by_batch(size):
    found = alike(DataLoader(SORTED, batch_size=size))
    assert found["batches of one class"] == 1.0
    assert found["the same if mixed"] == pytest.approx(3 * (1 / 3) ** size, rel=0.2)


@pytest.mark.parametrize(
    "data",
    [
        DataLoader(SORTED, batch_size=16, shuffle=True),
        DataLoader(SORTED),  # batches of one always hold one class
        DataLoader(TensorDataset(POINTS), batch_size=16),
        DataLoader(TensorDataset(POINTS, POINTS), batch_size=16),
        (POINTS, CLASSES.sort().values),  # of which nobody says in what order it is trained on
        POINTS,
    ],
)
def test_of_others_nothing_is_said(data):
    assert alike(data) == {}


@settings(max_examples=40, deadline=None)
@given(classes=st.integers(2, 6), size=st.integers(8, 40), seed=st.integers(0, 99))
def test_mixed_samples_are_no_fault(classes, size, seed):
    """However many classes and however large batches are, also where one class is frequent."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(400, generator=generator) ** 3 * classes).long()
    found = alike(DataLoader(TensorDataset(POINTS[:1].expand(400, 4), y), batch_size=size))
    assert found["batches of one class"] < 0.5 or found["the same if mixed"] > 0.05


def test_samples_of_a_sorted_loader_are_of_all_classes():
    found = taken(DataLoader(SORTED, batch_size=16), samples=30)
    assert set(found.targets.tolist()) == {0, 1, 2}
    assert (found.total, found.size) == (240, 16)
    more = taken(DataLoader(SORTED, batch_size=16), samples=60)
    assert torch.equal(more.batch[:30], found.batch)


def test_rows_that_only_neighbours_fit_are_taken_as_they_come():
    rows = [(torch.zeros(2 + i // 8, 4), i // 8) for i in range(32)]  # lengths go up
    found = taken(DataLoader(rows, batch_size=8), samples=16)  # type: ignore[arg-type]
    assert found.batch.shape == (8, 2, 4)


def test_a_sorted_loader_is_the_first_cause():
    whole = {"model": network(), "loss": "cross_entropy", "optimizer": "adam",
             "lr": 0.02, "epochs": 8}  # fmt: skip
    names = [
        [f.name for f in ss.diagnose({**whole, "data": DataLoader(SORTED, 24, shuffle=s)}).findings]
        for s in (False, True)
    ]
    assert names == [["sorted-samples"], []]


SQUEEZED = Net(lambda self, x: self.inner(x).squeeze(), inner=network())


@pytest.mark.parametrize("model", [network(nn.BatchNorm1d(8)), SQUEEZED])
@pytest.mark.parametrize(
    ("count", "drop", "raises"), [(97, False, True), (97, True, False), (96, False, False)]
)
def test_a_last_batch_of_one(model, count, drop, raises):
    loader = DataLoader(
        TensorDataset(POINTS[:count], CLASSES[:count]), 16, shuffle=True, drop_last=drop
    )
    program = ss.Program(model, loader, F.cross_entropy, "adam")
    before = fingerprint(model=model)
    items = [*last_batch_items(program, opened(program, samples=64))]
    assert [i.what for i in items] == (["training"] if raises else [])
    assert not differences(before, fingerprint(model=model))


class Unsized(Sampler):
    def __iter__(self):
        return iter(range(97))


@pytest.mark.parametrize(
    ("inner", "how"), [([], {}), ([nn.BatchNorm1d(8)], {"sampler": Unsized()})]
)
def test_a_last_batch_of_one_that_works_or_is_not_known_of_is_no_fault(inner, how):
    loader = DataLoader(TensorDataset(POINTS[:97], CLASSES[:97]), 16, **how)
    program = ss.Program(network(*inner), loader, F.cross_entropy)
    assert [*last_batch_items(program, opened(program, samples=64))] == []
    assert not how or [*order_items(loader)] == []
