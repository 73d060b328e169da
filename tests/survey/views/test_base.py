from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sigmascope import survey
from sigmascope.core import products
from sigmascope.core.records import Estimate, Reading
from sigmascope.survey import profiling
from sigmascope.survey.views.base import ProfileView


@pytest.fixture
def a_view_more(monkeypatch):
    """A view of another product, as the list would bring it."""

    def items(subject):
        yield Reading("(network)", "stable rank", Estimate.exactly(3.0), "weights")

    of = products.modules
    weights = SimpleNamespace(VIEW=ProfileView("weights", items, differentiates=False))
    monkeypatch.setattr(
        products, "modules", lambda names: (weights,) if names is products.VIEWS else of(names)
    )
    profiling.profile_views.cache_clear()
    yield
    profiling.profile_views.cache_clear()


@pytest.mark.usefixtures("a_view_more")
def test_a_profile_has_the_items_of_the_view_that_is_declared():
    (found,) = survey.profile(nn.Linear(3, 2), torch.randn(5, 3), views=["weights"]).readings
    assert (found.site, found.estimate.value) == ("(network)", 3.0)
