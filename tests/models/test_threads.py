"""One model measured in several threads at once gives the numbers of one thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import models, survey
from sigmascope.models import Subject
from tests.fingerprints import differences, fingerprint, process

VIEWS = ("representations", "features", "gradients", "setup")


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.TransformerEncoderLayer(6, 2, 8, dropout=0.3, batch_first=True),
        nn.Flatten(),
        nn.Linear(30, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(8, 3),
    )


def measured(net, batch):
    x, y = batch
    g = torch.Generator().manual_seed(1)
    found = survey.profile(net, x, targets=y, loss=F.cross_entropy, views=VIEWS, generator=g)
    return [(r.site, r.quantity, r.form, r.estimate.value) for r in found.readings], found.about


def test_four_threads_agree_with_one_and_leave_the_model_as_found():
    net = model().train()
    batches = [(torch.randn(n, 5, 6), torch.arange(n) % 3) for n in (5, 6, 7, 8)]
    alone = [measured(net, b) for b in batches]
    before, around = fingerprint(model=net), process()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda b: measured(net, b), [*batches, *batches]))
    for (one, about), (other, told) in zip([*alone, *alone], together, strict=True):
        assert [r[:3] for r in one] == [r[:3] for r in other]
        torch.testing.assert_close(
            torch.tensor([r[3] for r in one]), torch.tensor([r[3] for r in other])
        )
        assert about["mode"] == told["mode"] == "training"
    assert not differences(before, fingerprint(model=net))
    assert process() == around


def test_a_normaliser_is_not_judged_while_it_is_held_still():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, affine=False)).train()
    inside, done = threading.Event(), threading.Event()
    told = []

    def hold():
        with models.state.still(net):
            net[1].training = False
            inside.set()
            done.wait(0.2)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait()
    told.append(dict(Subject(net, torch.randn(4, 3))._listened))
    done.set()
    holder.join()
    assert set(told[0]) == {"0", "1"}
