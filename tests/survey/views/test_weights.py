import math

import torch
from torch import nn

from sigmascope import survey
from sigmascope.models.networks import resnet


def generator():
    return torch.Generator().manual_seed(0)


def read(model, x):
    return survey.profile(model, x, views=["weights"])


def layer(weight):
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False).double()
    model.weight.data.copy_(weight)
    return nn.Sequential(model)


def test_operator_and_kernel_are_both_read():
    model = resnet(inputs=(1, 8, 8), outputs=3, depth=8, width=4, generator=generator())
    measured = read(model, torch.randn(4, 1, 8, 8, generator=generator()))
    forms = {r.form for r in measured.readings}
    assert forms == {"matrix", "kernel", "operator"}
    norms = {(r.site, r.form): r.estimate.value for r in measured.series("spectral norm")}
    bigger = [norms[s, "operator"] / norms[s, "kernel"] for s, f in norms if f == "operator"]
    assert max(bigger) > 1.3


def test_a_diagonal_weight_has_its_entries_for_singular_values():
    measured = read(layer(torch.diag(torch.tensor([3.0, 4.0]))), torch.ones(2, 2).double())
    told = {r.quantity: r.estimate.value for r in measured.readings}
    assert told["spectral norm"] == 4
    assert math.isclose(told["Frobenius norm"], 5, rel_tol=1e-15)
    assert math.isclose(told["stable rank"], 25 / 16, rel_tol=1e-15)
    assert math.isclose(told["condition number"], 4 / 3, rel_tol=1e-15)


def test_a_mean_shift_is_the_constant_part_beside_what_the_spread_gives():
    W = torch.tensor([[3.0, 1.0], [1.0, 3.0]])  # mean 2, spread 1
    (shift,) = read(layer(W), torch.ones(2, 2).double()).series("mean shift")
    assert math.isclose(shift.estimate.value, 2 * 2 / (2 * math.sqrt(2)), rel_tol=1e-15)


def test_a_zero_weight_has_norms_alone_and_says_so():
    measured = read(layer(torch.zeros(3, 2)), torch.ones(2, 2).double())
    assert {r.quantity for r in measured.readings} == {"spectral norm", "Frobenius norm"}
    (said,) = measured.skipped
    assert said.what == "mean shift, stable rank, effective rank, condition number"
    assert said.why == "it is exactly zero"


def test_equal_entries_have_no_mean_shift():
    measured = read(layer(torch.full((3, 2), 0.1)), torch.ones(2, 2).double())
    assert not measured.series("mean shift")
    assert ("mean shift", "its entries do not differ, or by rounding only") in {
        (s.what, s.why) for s in measured.skipped
    }


def test_entries_have_a_mean_shift_and_whole_convolutions_have_none():
    model = resnet(inputs=(1, 8, 8), outputs=3, depth=8, width=4, generator=generator())
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1)  # so that every weight has a mean
    measured = read(model, torch.randn(4, 1, 8, 8, generator=generator()))
    assert {r.form for r in measured.series("mean shift")} == {"matrix", "kernel"}


def test_a_convolution_that_never_ran_has_no_operator_and_says_so():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3)
            self.last = nn.Linear(18, 2)

        def forward(self, x):
            return self.last(self.used(x).flatten(1))

    measured = read(Half(), torch.randn(4, 1, 5, 5, generator=generator()))
    assert [s.site for s in measured.skipped if s.what == "operator"] == ["idle.weight"]
    assert {r.site for r in measured.readings if r.form == "operator"} == {"used.weight"}
