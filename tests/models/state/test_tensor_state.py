"""How changes of tensors are noticed and undone, also of models too large to copy each time."""

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal, memory
from sigmascope.models import state as kept_by
from sigmascope.models.samples import run
from sigmascope.models.state import ROW, TOGETHER, checksum, one_door, still


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("shape", [(3,), (ROW,), (5, ROW + 7)])
def test_a_checksum_sees_changes_that_a_sum_does_not(dtype, shape):
    torch.manual_seed(0)
    t = (torch.randn(shape) * 10).to(dtype)
    before = checksum(t)
    assert checksum(t.clone()) == before
    flat = t.view(-1)
    for change in (
        lambda f: f[[0, -1]].flip(0),
        lambda f: torch.stack([f[0] + 1, f[-1] - 1]),
        lambda f: torch.stack([f[0] + 1, f[-1]]),
    ):
        other = t.clone()
        other.view(-1)[[0, -1]] = change(flat)
        if not torch.equal(other, t):
            assert checksum(other) != before


def test_minus_zero_is_not_zero():
    t = torch.zeros(4)
    before = checksum(t)
    t[2] = -0.0
    assert checksum(t) != before
    assert not kept_by._equal(t, torch.zeros(4))


def test_memory_in_pieces_has_no_checksum():
    assert checksum(torch.zeros(4, 4).T[:2]) is None


class Late(nn.Module):
    """Changes its weights in its second run, without a trace in any counter."""

    def __init__(self, at, width=4):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.runs = iter(range(100))
        self.at = at

    def forward(self, x):
        if next(self.runs) in self.at:
            self.layer.weight.data.mul_(2)
        return self.layer(x)


@pytest.mark.parametrize(("size", "ample"), [(2**29, True), (2**29 + 1, False)])
def test_models_of_up_to_512_mebibytes_are_copied_in_every_run(size, ample):
    weights = torch.zeros(1, dtype=torch.uint8).expand(size)  # takes no memory
    with memory("1TB"):
        assert kept_by._ample([weights]) == ample


def test_a_large_model_that_changes_in_every_run_is_put_back(monkeypatch):
    monkeypatch.setattr(kept_by, "AMPLE", 0)
    net = Late(range(100))
    before = net.layer.weight.detach().clone()
    for _ in range(3):
        with still(net), torch.no_grad():
            run(net, torch.ones(1, 4))
        assert torch.equal(net.layer.weight, before)


def test_a_large_model_is_copied_once_and_a_later_change_is_an_error(monkeypatch):
    monkeypatch.setattr(kept_by, "AMPLE", 0)
    net = Late([2])
    with still(net):
        pass  # not a run, so it tells nothing
    for _ in range(2):
        with still(net), torch.no_grad():
            run(net, torch.ones(1, 4))
    wrong = pytest.raises(Refusal, match=r"leave its weights as they are.*Load the model anew")
    with wrong, still(net), torch.no_grad():
        run(net, torch.ones(1, 4))


def test_of_a_large_model_what_is_small_is_copied_and_comes_back(monkeypatch):
    monkeypatch.setattr(kept_by, "AMPLE", 4 * kept_by.SMALL)
    net = Late([2])
    net.large = nn.Parameter(torch.ones(5 * 2**12))
    before = net.layer.weight.detach().clone()
    for _ in range(4):
        with still(net), torch.no_grad():
            run(net, torch.ones(1, 4))
        assert torch.equal(net.layer.weight, before)


@pytest.fixture
def added_up(monkeypatch):
    """How many checksums were made."""
    monkeypatch.setattr(kept_by, "AMPLE", 0)
    made = []
    monkeypatch.setattr(kept_by, "checksum", lambda t: made.append(1) or checksum(t))
    return made


def test_while_a_door_is_open_a_checksum_holds_until_the_next_run(added_up):
    net, counts = nn.Linear(4, 4, bias=False), []
    with one_door():
        for _ in range(4):
            with still(net), torch.no_grad():
                run(net, torch.ones(1, 4))
            counts.append(len(added_up))
    assert counts == [0, 2, 3, 4]  # the first run has copies, the second an entrance
    with still(net):
        pass
    assert len(added_up) == 6


@pytest.mark.parametrize("change", [
    lambda p: p.mul_(2),
    lambda p: p.detach().mul_(2),
    lambda p: setattr(p, "data", 2 * p),
])  # fmt: skip
def test_what_changes_between_two_runs_of_a_door_is_no_change_of_the_second(change, added_up):
    net = nn.Linear(4, 4, bias=False)
    with one_door(), torch.no_grad():
        for _ in range(3):
            with still(net):
                run(net, torch.ones(1, 4))
        change(net.weight)
        now = net.weight.clone()
        with still(net):
            run(net, torch.ones(1, 4))
    assert torch.equal(net.weight, now)


@pytest.mark.parametrize("ample", [0, 2**28])  # checksums, copies
def test_other_numbers_where_those_of_the_last_run_lay_are_no_change(ample, monkeypatch):
    monkeypatch.setattr(kept_by, "AMPLE", ample)
    net = nn.Linear(256, 256, bias=False)
    with one_door(), torch.no_grad():
        for k in range(6):
            net.weight.data = torch.empty(0)  # so that the next ones may lie where the last did
            net.weight.data = torch.full((256, 256), float(k))
            with still(net):
                run(net, torch.ones(1, 256))
            assert bool((net.weight == k).all())


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_change_in_any_run_of_a_door_is_undone(at):
    net = Late([at], 65)  # large enough to be held from run to run
    before = net.layer.weight.detach().clone()
    with one_door(), torch.no_grad():
        for _ in range(5):
            with still(net):
                run(net, torch.ones(1, 65))
            assert torch.equal(net.layer.weight, before)


def test_while_a_door_is_open_a_copy_holds_until_something_changes():
    net, copies = nn.Linear(65, 64, bias=False), []
    with one_door(), torch.no_grad():
        for factor in (1, None, 2):
            if factor:
                net.weight.mul_(factor)
            with still(net):
                run(net, torch.ones(1, 65))
            copies.append(kept_by.keepsakes([net.weight], frozenset())[0].values)
    assert copies[0] is copies[1]
    assert copies[2] is not copies[1]
    assert torch.equal(copies[2], net.weight)


@pytest.mark.parametrize(("rows", "held"), [(63, False), (64, False), (65, True)])
def test_a_copy_is_held_from_16_kilobytes_on(rows, held):
    net = nn.Linear(64, rows, bias=False)
    with one_door(), torch.no_grad():
        with still(net):
            run(net, torch.ones(1, 64))
        assert (net.weight in kept_by.UNCHANGED.get()) == held


def test_a_door_holds_no_copies_of_a_large_model(monkeypatch):
    net = nn.Linear(65, 64, bias=False)
    for ample in (2**28, 0):
        monkeypatch.setattr(kept_by, "AMPLE", ample)
        with one_door(), torch.no_grad():
            with still(net):
                run(net, torch.ones(1, 65))
            assert (net.weight in kept_by.UNCHANGED.get()) == bool(ample)


def test_weights_that_count_no_changes_may_change_between_runs():
    with torch.inference_mode():
        net = nn.Linear(65, 64, bias=False)
        with one_door():
            for k in range(3):
                net.weight.fill_(k)
                with still(net):
                    run(net, torch.ones(1, 65))
                assert bool((net.weight == k).all())


def test_training_between_two_doors_is_no_change_whatever_it_counts(added_up):
    net = nn.Linear(4, 4, bias=False)
    for _ in range(4):
        with one_door(), still(net), torch.no_grad():
            run(net, torch.ones(1, 4))
        net.weight.data.mul_(2)
    assert added_up


def test_a_change_in_a_run_is_an_error_though_the_checksum_was_known(added_up):
    net = Late([3])
    with one_door(), torch.no_grad():
        for _ in range(3):
            with still(net):
                run(net, torch.ones(1, 4))
        with pytest.raises(Refusal, match="leave its weights as they are"), still(net):
            run(net, torch.ones(1, 4))


def test_what_is_given_back_goes_on_after_a_part_that_cannot_be(monkeypatch):
    monkeypatch.setattr(kept_by, "AMPLE", 0)
    net = Late([1]).train()
    with still(net), torch.no_grad():
        run(net, torch.ones(1, 4))
    with pytest.raises(Refusal), still(net), torch.no_grad():
        run(net, torch.ones(1, 4))
    assert net.training
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("at", [0, 1, 40_000, -1])
@pytest.mark.parametrize("count", [2**15 + 2, 2**16 + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_change_of_any_number_of_a_long_tensor_is_undone(dtype, count, at):
    net = nn.Module()
    net.register_buffer("kept", torch.zeros(count + 1, dtype=dtype)[1:])  # which lies askew
    net.register_buffer("even", torch.zeros(count, dtype=dtype))
    with still(net):
        for t in (net.kept, net.even):
            t.data[min(at, count - 1)] = 1
    assert not net.kept.any()
    assert not net.even.any()


def test_gradients_and_flags_come_back():
    net = nn.Linear(3, 3)
    net.weight.grad = torch.ones(3, 3)
    grad, weight, data = net.weight.grad, net.weight, net.weight.data_ptr()
    with still(net):
        net.weight.grad.zero_()
        net.weight.grad = None
        net.weight.data = torch.zeros(2)
        net.weight.requires_grad_(False)
        net.bias.register_hook(lambda g: g)
        net.bias = nn.Parameter(torch.zeros(3))
    assert net.weight is weight
    assert net.weight.grad is grad
    assert (grad == 1).all()
    assert net.weight.data_ptr() == data
    assert net.weight.requires_grad
    assert not net.bias._backward_hooks


def test_weights_may_stay_changed_where_that_is_asked():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with still(net, weights=False), torch.no_grad():
        net[0].weight.zero_()
        net[1].running_mean.add_(1)
    assert not net[0].weight.any()
    assert not net[1].running_mean.any()


def test_words_that_lie_far_apart_do_not_change_places_unseen():
    """Of words that lie askew all are added up one by one, in several parts."""
    t = torch.arange(ROW * TOGETHER + 9, dtype=torch.int32)[1:]
    before = checksum(t)
    t[[0, ROW * TOGETHER]] = t[[ROW * TOGETHER, 0]]
    assert checksum(t) != before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
def test_a_weight_that_lies_askew_in_a_larger_one_is_held_still(dtype):
    model = torch.nn.Module()
    flat = torch.zeros(2**20 + 3, dtype=dtype)
    model.register_parameter("weight", torch.nn.Parameter(flat[1:-1], requires_grad=False))
    with still(model):
        model.weight.fill_(3)
    assert not flat.any()
