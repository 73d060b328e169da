import torch

from sigmascope.scanning import plan, scan
from sigmascope.scanning.planning import meeting
from tests.scanning.families import model


def met(source):
    matrices = plan(source).matrices
    return {(matrices[i].site, matrices[j].site) for i, j in meeting(matrices)}


def weights(**shapes):
    return {name.replace("__", "."): torch.randn(shape) for name, shape in shapes.items()}


def test_layers_of_one_block_meet_and_those_of_two_do_not():
    found = met(model("llama"))
    block = "model.layers.{}.mlp."
    for i in range(2):
        for first in ("gate_proj", "up_proj"):
            a, b = block.format(i) + f"{first}.weight", block.format(i) + "down_proj.weight"
            assert (a, b) in found
    assert len(found) == 4  # values are fewer than what mixes them reads


def test_experts_meet_their_own_whether_they_lie_together_or_apart():
    state = {k: v for k, v in model("mixtral").state_dict().items() if ".0.mlp.experts." in k}
    stem = "model.layers.0.mlp.experts"
    assert met(state) == {
        (f"{stem}.gate_up_proj[{e}.{part}]", f"{stem}.down_proj[{e}]")
        for e in range(3)
        for part in ("gate", "up")
    }
    apart = weights(
        **{f"layers__0__experts__{e}__{w}__weight": s for e in range(2)
           for w, s in (("w1", (6, 4)), ("w3", (6, 4)), ("w2", (4, 6)))}
    )  # fmt: skip
    assert len(met(apart)) == 4
    assert all(a.split(".")[3] == b.split(".")[3] for a, b in met(apart))


def test_a_plain_stack_is_a_chain_in_the_order_of_its_numbers():
    chain = weights(net__10__weight=(3, 5), net__0__weight=(4, 6), net__2__weight=(5, 4))
    assert met(chain) == {("net.0.weight", "net.2.weight"), ("net.2.weight", "net.10.weight")}


def test_those_that_do_not_fit_do_not_meet():
    assert not met(weights(net__0__weight=(4, 6), net__2__weight=(5, 3)))
    double = weights(
        layers__0__a__v_proj__weight=(4, 4), layers__0__b__v_proj__weight=(4, 4),
        layers__0__a__o_proj__weight=(4, 4),
    )  # fmt: skip
    assert not met(double)  # which of the two it would be is not known


def test_a_meeting_is_read_under_both_names():
    found = scan(weights(net__0__weight=(40, 30), net__2__weight=(20, 40)))
    (reading,) = found.series("unit imbalance")
    assert reading.site == "net.0.weight → net.2.weight"
