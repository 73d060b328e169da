"""Watching in a loop that Accelerate has prepared: real trainings."""

import pytest
import torch
from torch.nn import functional as F

from sigmascope.core.store import Run
from tests.integrations import trainings
from tests.integrations.absent import told_without

accelerate = pytest.importorskip("accelerate")
pytestmark = pytest.mark.filterwarnings("ignore")  # its own

from sigmascope.integrations.accelerate import watch  # noqa: E402


@pytest.fixture
def fresh():
    """Accelerators of other settings: their state is one for the whole process."""
    from accelerate.state import AcceleratorState, GradientState

    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def train(run=None, *, epochs=2, start=None, model=None, bad_at=None, log_with=None, **of):
    """The model as it was, and how many steps the optimizer made."""
    accelerator = accelerate.Accelerator(cpu=True, log_with=log_with, **of)
    if log_with is not None:
        accelerator.init_trackers("a")
    inner = trainings.net() if model is None else model
    torch.manual_seed(5)
    loader = torch.utils.data.DataLoader(trainings.data(), batch_size=4, shuffle=True)
    optimizer = torch.optim.AdamW(inner.parameters(), lr=0.05)
    net, wrapped, loader = accelerator.prepare(inner, optimizer, loader)
    made = []
    optimizer.register_step_post_hook(lambda *_: made.append(0))
    watching = None
    if run is not None:
        watching = watch(accelerator, net, wrapped, run=run, start=start, clock=trainings.stopped)
    for _ in range(epochs):
        for x, y in loader:
            with accelerator.accumulate(net):
                loss = F.cross_entropy(net(x), y) * (float("nan") if len(made) == bad_at else 1)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(net.parameters(), 0.5)
                wrapped.step()
                if watching is not None:
                    watching.step(loss)
                wrapped.zero_grad()
    if watching is not None:
        assert watching.steps == (start or 0) + len(made)
        watching.close()
    accelerator.end_training()
    return inner, len(made)


@pytest.mark.parametrize(
    "of", [{}, {"gradient_accumulation_steps": 4}, {"mixed_precision": "bf16"}], ids=str
)
def test_training_is_bitwise_the_same_and_steps_are_the_optimizers(tmp_path, fresh, of):
    plain, _ = train(**of)
    watched, made = train(tmp_path / "a.run", **of)
    assert trainings.same(plain.state_dict(), watched.state_dict())
    assert max(trainings.losses(tmp_path / "a.run")) == made
    with Run(tmp_path / "a.run", write=False) as run:
        assert {r.site for r in run.readings() if r.site.isdigit()} <= {"0", "1", "2", "3"}


def test_a_run_goes_on_at_the_step_that_is_named(tmp_path, fresh):
    model, made = train(tmp_path / "a.run")
    train(tmp_path / "a.run", start=made, model=model)
    found = trainings.losses(tmp_path / "a.run")
    assert (min(found), max(found)) == (1, 2 * made)


def test_a_step_that_the_scaler_skips_is_none(fresh):
    model = trainings.net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accelerator = accelerate.Accelerator(cpu=True)
    scaler = torch.amp.GradScaler("cpu")
    wrapped = accelerate.optimizer.AcceleratedOptimizer(optimizer, scaler=scaler)
    with watch(accelerator, model, wrapped) as watching:
        for factor in (1.0, float("inf"), 1.0):
            x, y = trainings.data()[:]
            scaler.scale(F.cross_entropy(model(x), y) * factor).backward()
            wrapped.step()
            wrapped.zero_grad()
            assert wrapped.step_was_skipped == (factor != 1.0)
        assert watching.steps == 2


def test_alarms_reach_the_trackers(tmp_path, fresh):
    class Tracker(accelerate.tracking.GeneralTracker):
        name, requires_logging_directory, tracker, got = "own", False, None, []

        def __init__(self):
            super().__init__()

        def store_init_configuration(self, values):
            pass

        def log(self, values, step=None, **_):
            self.got.append((step, values))

    train(tmp_path / "a.run", bad_at=7, log_with=Tracker())
    (step, told), *_ = Tracker.got
    assert step == 8
    assert {(name.split("/")[1], value) for name, value in told.items()} == {("non-finite", 1.0)}


def test_without_accelerate_it_says_how_to_get_it():
    assert "pip install 'sigmascope[hf]'" in told_without("accelerate", "accelerate")
