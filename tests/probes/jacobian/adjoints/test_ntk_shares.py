import pytest
import torch

from sigmascope.probes import Subject
from tests.probes.jacobian.cases import CASES, build, truth


@pytest.mark.parametrize("case", CASES)
def test_ntk_shares_equal_per_sample_jacobians(case):
    model, batch = build(case)
    expected = truth(model, batch)
    swept = Subject(model, batch).adjoints
    assert not swept.silent
    for site, adjoint in swept.adjoints.items():
        owned = [v for k, v in expected.items() if k.rsplit(".", 1)[0] == site]
        assert adjoint.share_sq is not None, site
        torch.testing.assert_close(adjoint.share_sq.sum(1), sum(owned), rtol=1e-10, atol=1e-14)
    owners = {k.rsplit(".", 1)[0] for k in expected}
    assert owners == set(swept.adjoints)


def test_a_frozen_weight_has_no_share():
    model, batch = build("mlp")
    model[0].weight.requires_grad_(False)
    share = Subject(model, batch).adjoints.adjoints["0"].share_sq
    expected = truth(model, batch)["0.bias"]
    torch.testing.assert_close(share.sum(1), expected)
