import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.gate import Refusal, memory
from sigmascope.survey.profiling import cut


def wide(samples: int = 64):
    g = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 2048), nn.ReLU(), nn.Linear(2048, 4)).requires_grad_()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=g) / 8)
    return model, torch.randn(samples, 16, generator=g), torch.arange(samples) % 4


def test_a_batch_that_fits_is_left_alone():
    model, x, y = wide()
    batch, targets, left = cut(model, x, y, 0)
    assert batch is x
    assert targets is y
    assert left == []


def test_what_does_not_fit_is_cut_and_told():
    model, x, y = wide()
    with memory("1MB"):
        batch, targets, left = cut(model, x, torch.cat([y, y]), 0)
    assert 1 <= len(batch) < 64
    assert torch.equal(batch, x[: len(batch)])
    assert len(targets) == 2 * len(batch)
    (told,) = left
    assert told.what == f"{64 - len(batch)} of 64 samples"
    assert "`memory=` (`--memory`)" in told.why


def test_a_profile_within_a_cap_is_that_of_the_first_samples():
    model, x, y = wide()
    capped = survey.profile(model, x, targets=y, loss=F.cross_entropy, memory="1MB")
    (told,) = [s for s in capped.skipped if s.site == "(samples)"]
    most = 64 - int(told.what.split()[0])
    alone = survey.profile(model, x[:most], targets=y[:most], loss=F.cross_entropy)
    there = {(r.site, r.quantity, r.form): r.estimate.value for r in capped.readings}
    assert there
    for r in alone.readings:
        key = (r.site, r.quantity, r.form)
        if key in there:
            assert there[key] == pytest.approx(r.estimate.value, rel=1e-4, abs=1e-6), key


def test_a_cap_that_a_gradient_does_not_fit_is_refused_before_it_starts(as_users_see_it):
    model, x, y = wide()
    task = {"targets": y, "loss": F.cross_entropy, "memory": "200kB"}
    asked = []
    words = r"gradient of `0\.weight`.* takes .* or ask for the views representations and weights"
    with pytest.raises(Refusal, match=words):
        survey.profile(model, x, **task, progress=lambda word, *_: asked.append(word))
    assert asked == ["forward pass"]
    plain = survey.profile(model, x, **task, views=("representations", "weights"))
    assert plain.readings


def test_pieces_of_the_samples_give_what_all_at_once_do():
    model, x, y = wide()
    task = {"targets": y, "loss": F.cross_entropy}
    whole = survey.profile(model, x, **task)
    parts = survey.profile(model, x, **task, memory="5MB")
    assert not [s for s in parts.skipped if s.site == "(samples)"]
    assert [r.quantity for r in parts.readings] == [r.quantity for r in whole.readings]
    for a, b in zip(parts.readings, whole.readings, strict=True):
        assert a.estimate.value == pytest.approx(b.estimate.value, rel=1e-4, abs=1e-6), a


def test_where_no_sample_fits_it_is_refused(as_users_see_it):
    model, x, _ = wide()
    with (
        memory("10kB"),
        pytest.raises(Refusal, match=r"must allow for one sample, got .* Allow more"),
    ):
        cut(model, x, None, 0)


CAPPED = """
import os, resource, sys, torch, transformers
from torch.nn import functional as F
from sigmascope import survey

torch.set_num_threads(1)
warm = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
survey.profile(warm, torch.randn(8, 8), targets=torch.arange(8) % 4, loss=F.cross_entropy)
torch.manual_seed(0)
config = transformers.GPT2Config(vocab_size=8192, n_embd=512, n_layer=8, n_head=8, use_cache=False)
model = transformers.GPT2LMHeadModel(config).eval()
x = torch.randint(0, 8192, (2, 64))
pages = int(open("/proc/self/statm").read().split()[1])
before = pages * os.sysconf("SC_PAGE_SIZE")
found = survey.profile(
    model,
    x,
    targets=x.roll(-1, 1),
    loss=lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()),
    memory=sys.argv[1],
)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
views = {r.view for r in found.readings}
print(peak - before, *sorted(views), *(f"[{s.what}: {s.why}]" for s in found.skipped))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is read from /proc")
def test_a_cap_holds_that_weights_and_gradients_are_large_for():
    """A GPT-2 of 30 million weights, 120 MB of them, in a process of its own."""
    one = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CAPPED, "300MB"],
        env=one,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    peak, *views = done.stdout.split()
    assert {"representations", "weights", "features", "gradients", "setup"} <= set(views)
    assert int(peak) <= 300e6
