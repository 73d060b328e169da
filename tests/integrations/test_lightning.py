"""Watching in Lightning: real trainings."""

import copy
import logging
import os
import re
import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.core.store import Run
from sigmascope.watching import MEANS
from tests.integrations import trainings
from tests.integrations.absent import told_without

pytest.importorskip("lightning")
pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own

import lightning.pytorch as pl  # noqa: E402 (only where it is there)

from sigmascope.integrations.lightning import SigmascopeCallback  # noqa: E402


def watcher(**of):
    return SigmascopeCallback(clock=trainings.stopped, **of)


class Module(pl.LightningModule):
    def __init__(self, fails_at=None, bad_at=None, rate=0.05):
        super().__init__()
        self.net, self.rate = trainings.net(), rate
        self.fails_at, self.bad_at = fails_at, bad_at

    def training_step(self, batch, batch_idx):
        if self.trainer.global_step == self.fails_at:
            raise RuntimeError("the cable was pulled")
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        return loss * float("nan") if self.trainer.global_step == self.bad_at else loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.rate)


class Manual(Module):
    """Two optimizers, the second at every other batch."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self):
        parts = (self.net[0], self.net[3])
        return [torch.optim.SGD(p.parameters(), lr=0.1) for p in parts]

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        first, second = self.optimizers()
        self.manual_backward(loss)
        first.step()
        first.zero_grad()
        if batch_idx % 2:
            second.step()
            second.zero_grad()
        return {"loss": loss}


def fit(module, tmp_path, *callbacks, of=pl, ckpt_path=None, **kwargs):
    given = {"max_epochs": 2, "logger": False, "enable_checkpointing": False} | kwargs
    trainer = of.Trainer(
        accelerator="cpu",
        callbacks=list(callbacks),
        default_root_dir=tmp_path,
        enable_progress_bar=False,
        enable_model_summary=False,
        **given,
    )
    torch.manual_seed(5)
    loader = torch.utils.data.DataLoader(trainings.data(), batch_size=4, shuffle=True)
    trainer.fit(module, loader, ckpt_path=ckpt_path)
    return trainer


@pytest.mark.parametrize(
    "of",
    [
        {},
        {"accumulate_grad_batches": 4, "gradient_clip_val": 0.1},
        {"precision": "bf16-mixed", "accumulate_grad_batches": 2},
    ],
    ids=str,
)
def test_training_is_bitwise_the_same_and_steps_are_the_trainers(tmp_path, of):
    plain, watched = Module(), Module()
    fit(plain, tmp_path, **of)
    callback = watcher(run=tmp_path / "a.run")
    trainer = fit(watched, tmp_path, callback, **of)
    assert trainings.same(plain.state_dict(), watched.state_dict())
    with Run(tmp_path / "a.run", write=False) as run:
        assert max(run.steps()) == trainer.global_step
    assert callback.watch is None
    assert trainings.hooks(watched) == 0


def test_the_loss_of_a_step_is_the_mean_over_its_batches(tmp_path):
    seen = []

    class Told(pl.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            seen.append(float(outputs["loss"]) * 4)

    callbacks = (Told(), watcher(run=tmp_path / "a.run"))
    fit(Module(), tmp_path, *callbacks, accumulate_grad_batches=4, max_epochs=1)
    found = trainings.losses(tmp_path / "a.run")
    assert found == pytest.approx({1: sum(seen[:4]) / 4, 2: sum(seen[4:]) / 2})


def test_manual_optimisation_is_bitwise_the_same(tmp_path):
    plain, watched = Manual(), Manual()
    fit(plain, tmp_path)
    fit(watched, tmp_path, watcher(run=tmp_path / "a.run"))
    assert trainings.same(plain.state_dict(), watched.state_dict())
    assert len(trainings.losses(tmp_path / "a.run")) > 1


def test_after_a_checkpoint_the_same_run_goes_on(tmp_path):
    run = tmp_path / "a.run"
    first = fit(Module(), tmp_path, watcher(run=run), max_epochs=1)
    first.save_checkpoint(tmp_path / "a.ckpt")
    again = fit(
        Module(),
        tmp_path,
        watcher(run=run),
        ckpt_path=tmp_path / "a.ckpt",
        max_epochs=3,
    )
    with Run(run, write=False) as found:
        steps = found.steps()
    assert (first.global_step, again.global_step) == (6, 18)
    assert min(steps) <= 1
    assert max(steps) == 18
    assert any(6 < step < 18 for step in steps)


def test_a_training_that_fails_ends_the_watch(tmp_path):
    callback, module = (
        watcher(run=tmp_path / "a.run"),
        Module(fails_at=3),
    )
    with pytest.raises(RuntimeError, match="cable"):
        fit(module, tmp_path, callback)
    assert callback.watch is None
    assert trainings.hooks(module) == 0
    assert max(trainings.losses(tmp_path / "a.run")) == 3


def test_what_fails_inside_is_one_line_and_training_goes_on(tmp_path, caplog):
    plain, watched = Module(), Module()
    fit(plain, tmp_path)
    with caplog.at_level(logging.WARNING, logger="sigmascope"):
        fit(watched, tmp_path, watcher(run=tmp_path / "none" / "a.run"))
    assert trainings.same(plain.state_dict(), watched.state_dict())
    told = [r.getMessage() for r in caplog.records if r.name.startswith("sigmascope")]
    assert len(told) == 1
    assert "none" in told[0]


def test_alarms_reach_the_loggers_and_stop_training_where_asked(tmp_path):
    class Logger(pl.loggers.CSVLogger):
        got = ()

        def log_metrics(self, metrics, step=None):
            self.got = (*self.got, (step, metrics))

    logger = Logger(tmp_path)
    callback = watcher(stop_on=("non-finite",))
    trainer = fit(Module(bad_at=7), tmp_path, callback, logger=logger, max_epochs=5)
    assert trainer.global_step == 8
    (step, told), *_ = logger.got
    assert step == 8
    assert {(name.split("/")[1], value) for name, value in told.items()} == {("non-finite", 1.0)}
    assert fit(Module(bad_at=7), tmp_path, watcher()).global_step == 12


def test_a_module_that_is_watched_can_be_copied_and_stored(tmp_path):
    class Stores(pl.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            trainings.require_picklable(callback)
            copy.deepcopy(callback)
            copy.deepcopy(module.net)
            torch.save(module.net, tmp_path / "net.pt")
            trainer.save_checkpoint(tmp_path / "a.ckpt")

    callback = watcher(run=tmp_path / "a.run")
    fit(Module(), tmp_path, callback, Stores(), max_epochs=1)
    net = torch.load(tmp_path / "net.pt", weights_only=False)
    assert net(torch.ones(1, 6)).shape == (1, 3)
    Module.load_from_checkpoint(tmp_path / "a.ckpt")


def in_two_processes(how, tmp_path):
    """What the ranks print, and what is warned of."""
    command = [sys.executable, "-m", "tests.integrations.ranks", how, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return sorted(re.findall(r"rank \d: \d+ steps, (?:nan|-?[\d.]+)", done.stdout)), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.slow
def test_in_two_processes_one_writes_and_neither_waits_for_the_other(tmp_path):
    plain, _ = in_two_processes("plain", tmp_path)
    assert [rank[:16] for rank in plain] == ["rank 0: 12 steps", "rank 1: 12 steps"]
    assert in_two_processes("watched", tmp_path)[0] == plain
    with Run(tmp_path / "a.run", write=False) as run:
        rows = [(r.step, r.site, r.quantity, r.form) for r in run.readings()]
    assert len(rows) == len(set(rows))
    assert max(step for step, *_ in rows) == 12
    lines = (tmp_path / "a.csv").read_text().splitlines()
    means = [row for row in rows if row[3] == MEANS]  # over steps, which the run file adds
    assert len(lines) == 1 + len(rows) - len(means)
    found, told = in_two_processes("broken", tmp_path)  # where only the one that writes can tell
    assert found == plain
    assert told.count("sigmascope watches this training no more") == 1
    stopped, _ = in_two_processes("stopped", tmp_path)
    assert [rank[:15] for rank in stopped] == ["rank 0: 8 steps", "rank 1: 8 steps"]


def test_it_serves_the_trainer_of_the_other_name_too(tmp_path):
    other = pytest.importorskip("pytorch_lightning")

    class Theirs(other.LightningModule):
        training_step, configure_optimizers = Module.training_step, Module.configure_optimizers

        def __init__(self):
            super().__init__()
            self.net, self.rate, self.fails_at, self.bad_at = trainings.net(), 0.05, None, None

    fit(
        Theirs(),
        tmp_path,
        watcher(run=tmp_path / "a.run"),
        of=other,
    )
    assert max(trainings.losses(tmp_path / "a.run")) == 12


def test_a_keyword_that_watch_does_not_know_is_refused():
    with pytest.raises(Refusal, match=r"got interval\. Leave out or rename"):
        SigmascopeCallback(interval=10)
    with pytest.raises(Refusal, match=r"`\('non-finite',\)`"):
        SigmascopeCallback(stop_on="non-finite")


def test_without_lightning_it_says_how_to_get_it():
    told = told_without("lightning", "lightning", "lightning.pytorch", "pytorch_lightning")
    assert "pip install 'sigmascope[lightning]'" in told
