"""Profiles of a batch that stays the same."""

import torch

from sigmascope.survey import profile
from tests.watching.made import Shelf, at_leisure, stack, task, trained


def test_readings_are_those_of_profile_in_their_own_view():
    model = stack(5, 4, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x, y = task()
    shelf = Shelf()
    options = {"probe_batch": x, "views": ["weights"], "only": ["profile"]}
    with at_leisure(model, optimizer, sinks=[shelf], **options) as watching:
        trained(model, x, y, optimizer, 30, watching)
    found = {(r.site, r.quantity, r.form): r.estimate for r in shelf.readings()
             if r.view == "weights"}  # fmt: skip
    own = profile(model, x, views=["weights"]).readings
    assert found == {(r.site, r.quantity, r.form): r.estimate for r in own}
