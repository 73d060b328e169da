"""What is parked comes back bit for bit, and its memory is free meanwhile."""

import pytest
import torch
from torch import nn

from sigmascope.diagnosis.trainability import copies
from sigmascope.diagnosis.trainability.copies import PIECE, Parking, memory_of, require_place
from sigmascope.gate import Refusal

NOTHING = frozenset()


def bits(t):
    t = t.detach()
    return (torch.view_as_real(t) if t.is_complex() else t).view(torch.uint8)


def test_bits_come_back_to_where_they_were():
    weights = [
        nn.Parameter(torch.randn(300, 50)),
        torch.randn(5000).double(),
        torch.randn(3000, dtype=torch.complex64),
        torch.full((5000,), float("nan")),
        torch.randn(PIECE // 4 + 7),  # more than is written at once
    ]
    view = weights[0].detach()[3:9, ::2]
    before, seen, versions = (
        [w.detach().clone() for w in weights],
        view.clone(),
        [w._version for w in weights],
    )
    place = Parking()
    for _ in range(2):
        place.park(weights, but=NOTHING)
        assert place.size == sum(w.untyped_storage().nbytes() for w in before)
        assert all(w.untyped_storage().nbytes() == 0 for w in weights)
        place.fetch()
        assert place.size == 0
    assert all(map(torch.equal, map(bits, weights), map(bits, before)))
    assert torch.equal(view, seen)
    assert [w._version for w in weights] == versions


def test_small_shared_and_strange_memory_stays():
    shared = torch.randn(5000)
    small, mapped = torch.randn(10), torch.randn(5000).share_memory_()
    sparse = torch.randn(100, 100).to_sparse()
    place = Parking()
    place.park([shared, small, mapped, sparse], but=frozenset({shared.data_ptr()}))
    assert place.size == 0
    assert shared.untyped_storage().nbytes() == 20000
    place.fetch()


def test_memory_of_a_model_is_that_of_its_weights_and_buffers():
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(4096))
    known = memory_of(model)
    assert model[0].weight.data_ptr() in known
    assert model[1].running_mean.data_ptr() in known
    assert model[0].bias.data_ptr() not in known  # it is small, and stays in any case


def test_a_full_disk_leaves_all_as_it_was(monkeypatch, as_users_see_it):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copies.tempfile, "TemporaryFile", full)
    weights = torch.randn(5000)
    before = weights.clone()
    with pytest.raises(Refusal, match=r"need 20000 bytes in the folder of temporary files.*TMPDIR"):
        Parking().park([weights], but=NOTHING)
    assert torch.equal(weights, before)


def test_too_little_room_is_said_before_it_starts(as_users_see_it):
    require_place(1)
    with pytest.raises(Refusal, match=r"need 8.59e\+09 GiB .* are free. Name a folder"):
        require_place(2**63)


def test_what_is_closed_leaves_no_file():
    place = Parking()
    place.park([torch.randn(5000)], but=NOTHING)
    file = place._file
    place.close()
    assert file.closed
    assert place.size == 0
    place.fetch()  # of which nothing comes


@pytest.mark.parametrize(("entries", "parked"), [(1024, 0), (1025, 4100)])
def test_memory_of_a_page_stays_and_more_is_parked(entries, parked):
    place = Parking()
    t = torch.arange(float(entries))
    place.park([t], but=frozenset())
    assert place.size == parked
    place.fetch()
    assert torch.equal(t, torch.arange(float(entries)))
