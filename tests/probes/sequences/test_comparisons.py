"""What a loss compares with what is read off its gradient; copies and filling off the ids."""

import pytest
import torch
from torch.nn import functional as F

from sigmascope.probes.sequences import copied, counted, ends, offset, ordered

N, T, V = 6, 10, 7


def ids(seed=0, n=N):
    return torch.randint(1, V, (n, T), generator=torch.Generator().manual_seed(seed))


def scores(seed=1):
    return torch.randn(N, T, V, generator=torch.Generator().manual_seed(seed))


def plain(o, t):
    return F.cross_entropy(o.flatten(0, 1), t.flatten())


def shifting(o, t):
    return F.cross_entropy(o[:, :-1].flatten(0, 1), t[:, 1:].flatten())


def channels(o, t):
    return F.cross_entropy(o.mT, t, label_smoothing=0.1)


def of_lengths(o, t):
    """Of the first half of the places alone, as a mask would."""
    return F.cross_entropy(o[:, : T // 2].flatten(0, 1), t[:, : T // 2].flatten())


@pytest.mark.parametrize(
    ("loss", "shift"), [(plain, 0), (shifting, 1), (channels, 0), (of_lengths, 0)]
)
def test_how_far_a_loss_shifts(loss, shift):
    assert offset(loss, scores(), ids()) == shift


def test_a_loss_over_all_places_has_no_shift():
    assert offset(lambda o, t: (o.mean() - t.double().mean()).square(), scores(), ids()) is None


def test_values_have_a_shift_too():
    x = torch.randn(N, T, 3, generator=torch.Generator().manual_seed(2))
    assert offset(lambda o, t: F.mse_loss(o[:, :-1], t[:, 1:]), torch.zeros(N, T, 3), x) == 1


def test_which_places_count():
    t = ids()
    t[:, 7:] = -100
    looks = counted(plain, scores(), t)
    assert looks is not None
    assert looks[:, :7].all()
    assert not looks[:, 7:].any()
    assert counted(shifting, scores(), ids())[:, -1].sum() == 0


@pytest.mark.parametrize(("loss", "made", "same", "after"), [
    (plain, lambda x: x, 1.0, None),
    (plain, lambda x: torch.cat([x[:, 1:], x[:, :1]], 1), None, 1.0),
    (shifting, lambda x: x, None, 1.0),
])  # fmt: skip
def test_where_targets_stand_among_the_inputs(loss, made, same, after):
    x = ids()
    t = made(x)
    shift = offset(loss, scores(), t)
    (found,) = copied(x, t, looks=counted(loss, scores(), t), shift=shift)
    assert found.name == ""
    assert found.chance < 0.5
    if same is not None:
        assert found.same == same
        assert found.next < 0.5
    if after is not None:
        assert found.next > 0.9
        assert found.same < 0.5


@pytest.mark.parametrize("loss", [plain, shifting])
@pytest.mark.parametrize("places", [0, 1, 2])
def test_targets_that_are_shifted_are_told_by_how_far(loss, places):
    x = ids()
    t = x.roll(-places, 1)
    shift = offset(loss, scores(), t)
    (found,) = copied(x, t, looks=counted(loss, scores(), t), shift=shift)
    by_places = {0: found.same, 1: found.next, 2: found.beyond}
    on = places + (loss is shifting)
    assert all((share > 0.8) == (k == on) for k, share in by_places.items())


def test_inputs_are_named_and_others_left_out():
    x, t = ids(), ids(5)
    batch = {"mask": torch.ones(N, T, T), "first": x, "second": t, "image": torch.zeros(N, 3)}
    found = {c.name: c for c in copied(batch, t, looks=torch.ones(N, T).bool(), shift=0)}
    assert set(found) == {"first", "second"}
    assert found["second"].same == 1.0
    assert found["first"].same < 0.5
    assert [c.name for c in copied((x, t), t, looks=torch.ones(N, T).bool(), shift=0)] == ["0", "1"]


def test_filling_at_the_ends_of_rows():
    t = ids()
    for row, length in enumerate((4, 6, 8, 10, 5, 7)):
        t[row, length:] = 0
    id_, where = ends(t)
    assert id_ == 0
    assert torch.equal(where, t == 0)
    _, front = ends(t.flip(1))
    assert torch.equal(front, t.flip(1) == 0)


@pytest.mark.parametrize("how", ["elsewhere", "one length", "none", "one row"])
def test_what_is_no_filling(how):
    t = ids()
    if how == "elsewhere":  # an id that ends rows and stands in them as well
        t[:, ::2] = 1
        t[:3, 6:] = 1
    elif how == "one length":  # as of a class that holds for a whole stretch
        t[:, 6:] = 0
    elif how == "one row":
        t[0, 6:] = 0
    assert not ends(t)[1].any()


def test_what_is_in_order():
    assert ordered(scores(), ids(), N)
    assert not ordered(scores()[:, 0], ids()[:, 0], N)
    assert not ordered(scores(), ids()[:, :3], N)
    assert not ordered(torch.zeros(N, V, T, T), torch.zeros(N, T, T), N)
