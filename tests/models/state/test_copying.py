import copy
import threading
import types
from collections import OrderedDict

import pytest
import torch
from odd_zoo import ODD
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.models.state import duplicate


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


@pytest.mark.parametrize("name", [n for n in ODD if n != "holds-the-uncopyable"])
def test_a_copy_shares_no_tensor_with_the_model(name):
    net, _ = ODD[name]()
    twin = duplicate(net)
    ours, theirs = net.state_dict(keep_vars=True), twin.state_dict(keep_vars=True)
    assert ours.keys() == theirs.keys()
    for key, tensor in ours.items():
        other = theirs[key]
        assert other is not tensor
        assert other.requires_grad == tensor.requires_grad
        dense = [t.detach().to_dense() if t.layout != torch.strided else t for t in (tensor, other)]
        assert torch.equal(*(t.float() if t.itemsize == 1 else t for t in dense))


def test_of_a_plain_model_it_is_what_deepcopy_gives():
    net = plain()
    net[0].weight.requires_grad_(False)
    one, other = duplicate(net), copy.deepcopy(net)
    x = torch.randn(2, 4)
    assert torch.equal(one(x), other(x))
    assert [p.requires_grad for p in one.parameters()] == [
        p.requires_grad for p in net.parameters()
    ]


def test_locks_are_new_and_generators_go_on_from_the_same_state():
    net = plain()
    net.lock, net.source = threading.Lock(), torch.Generator().manual_seed(7)
    with net.lock:
        twin = duplicate(net)
    assert twin.lock is not net.lock
    assert not twin.lock.locked()
    assert twin.source is not net.source
    assert torch.equal(torch.rand(3, generator=twin.source), torch.rand(3, generator=net.source))


def test_functions_that_hold_the_model_hold_the_copy():
    net = plain()
    net.forward = lambda x: net[2](torch.tanh(net[0](x)))
    twin = duplicate(net)
    with torch.no_grad():
        net[0].weight.zero_()
    x = torch.randn(2, 4)
    assert not torch.equal(twin(x), net(x))
    twin(x).sum().backward()
    assert net[0].weight.grad is None
    assert twin[0].weight.grad is not None


def test_methods_put_on_a_model_are_those_of_the_copy():
    net = plain()
    net.forward = types.MethodType(lambda self, x: 2 * self[0](x), net)
    assert duplicate(net).forward.__self__ is not net


def test_hooks_that_either_gets_later_and_records_that_are_shared_are_its_own():
    net = nn.Linear(2, 2)
    net.mine = net.yours = OrderedDict()
    twin = duplicate(net)
    twin.register_forward_hook(lambda *_: None)
    net.register_forward_pre_hook(lambda *_: None)
    twin.mine["a"] = 1
    assert (len(net._forward_hooks), len(twin._forward_pre_hooks)) == (0, 0)
    assert not net.mine
    assert twin.mine is twin.yours
    assert list(vars(twin)) == list(vars(net))


def test_a_hook_of_a_copy_takes_itself_off_the_copy_only():
    net, x = ODD["hook-removes-itself"]()
    duplicate(net)(x)
    assert len(net[0]._forward_hooks) == 1


def test_records_of_hooks_stay_the_users():
    net, seen = plain(), []
    net[0].register_forward_hook(lambda module, args, output: seen.append(output))
    duplicate(net)(torch.randn(2, 4))
    assert not seen


def test_what_cannot_be_copied_is_named():
    net, _ = ODD["holds-the-uncopyable"]()
    with pytest.raises(Refusal, match=r"`connection` of Uncopyable.*cannot pickle this"):
        duplicate(net)
    net = plain()
    net[2].store = {"inner": [net_connection()]}
    with pytest.raises(Refusal, match=r"`2\.store\.inner\.0`"):
        duplicate(net)


def net_connection():
    return ODD["holds-the-uncopyable"]()[0].connection


class Itself(nn.Linear):
    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize("model", [Itself(2, 2), nn.Sequential(nn.ReLU(), Itself(2, 2))])
def test_a_copy_that_is_the_model_itself_is_refused(model):
    before = model.state_dict()
    with pytest.raises(Refusal, match=r"Itself.*the model itself.*__deepcopy__"):
        duplicate(model)
    assert all(v.dtype == torch.float32 for v in before.values())


class Noted:
    """What a library may note on a weight."""

    def __init__(self, p):
        self.size, self.of = tuple(p.shape), p


def test_what_a_library_notes_on_weights_is_in_the_copy_too():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    for p in model.parameters():
        p.note, p.flag = Noted(p), True
    twin = duplicate(model)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert q.flag is True
        assert q.note.size == tuple(q.shape)
        assert q.note.of is q  # and not the weight of the model itself
        assert p.note.of is p
