"""Watching in the Trainer of Hugging Face: real trainings of a small GPT-2 on random tokens."""

import copy
import gc
import logging

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.core.store import Run
from tests.integrations import trainings
from tests.integrations.absent import told_without

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.filterwarnings("ignore")  # its own

from sigmascope.integrations.transformers import SigmascopeCallback  # noqa: E402

TOKENS = 50


def watcher(**of):
    return SigmascopeCallback(clock=trainings.stopped, **of)


def gpt():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=TOKENS, n_positions=16, n_embd=16, n_layer=2, n_head=2
    )
    config.bos_token_id = config.eos_token_id = 0
    return transformers.GPT2LMHeadModel(config)


def texts():
    generator = torch.Generator().manual_seed(1)
    lines = torch.randint(0, TOKENS, (24, 12), generator=generator)
    return [{"input_ids": line, "labels": line} for line in lines]


class Losses(transformers.TrainerCallback):
    """What the Trainer logs, at every step."""

    def __init__(self):
        self.got, self.told = {}, {}

    def on_log(self, args, state, control, logs=None, **_):
        self.told.setdefault(state.global_step, {}).update(logs)
        if "loss" in logs:
            self.got[state.global_step] = logs["loss"]


def trainer_of(model, tmp_path, *callbacks, by=transformers.Trainer, given=(), **of):
    arguments = {
        "per_device_train_batch_size": 2,
        "num_train_epochs": 1,
        "learning_rate": 1e-2,
        "save_strategy": "no",
        "report_to": [],
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": True,
    } | of
    args = transformers.TrainingArguments(output_dir=str(tmp_path / "out"), **arguments)
    return by(model, args, train_dataset=texts(), callbacks=list(callbacks), **dict(given))


@pytest.mark.parametrize(
    "of",
    [{}, {"gradient_accumulation_steps": 5, "bf16": True, "gradient_checkpointing": True}],
    ids=str,
)
def test_training_is_bitwise_the_same_and_steps_and_losses_are_the_trainers(tmp_path, of):
    plain, watched, told = gpt(), gpt(), Losses()
    trainer_of(plain, tmp_path, **of).train()
    callback = watcher(run=tmp_path / "a.run")
    trainer = trainer_of(watched, tmp_path, callback, told, **of)
    trainer.train()
    assert trainings.same(plain.state_dict(), watched.state_dict())
    found = trainings.losses(tmp_path / "a.run")
    assert max(found) == trainer.state.global_step
    assert found == pytest.approx({step: told.got[step] for step in found}, rel=1e-5)
    assert callback.watch is None
    assert trainings.hooks(watched) == trainings.hooks(plain)  # checkpointing has its own


def test_a_loss_that_the_model_does_not_return_is_the_one_that_is_logged(tmp_path):
    def own(outputs, labels, num_items_in_batch=None):
        return nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())

    told = Losses()
    callback = watcher(run=tmp_path / "a.run")
    trainer_of(
        gpt(), tmp_path, callback, told, given={"compute_loss_func": own}, logging_steps=3
    ).train()
    assert trainings.losses(tmp_path / "a.run") == pytest.approx(told.got)


def test_after_a_checkpoint_the_same_run_goes_on(tmp_path):
    run, stored = tmp_path / "a.run", {"save_strategy": "steps", "save_steps": 5}
    first = trainer_of(
        gpt(),
        tmp_path,
        watcher(run=run),
        max_steps=10,
        **stored,
    )
    first.train()
    again = trainer_of(gpt(), tmp_path, watcher(run=run), max_steps=20)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-10"))
    plain = trainer_of(gpt(), tmp_path / "plain", max_steps=10, **stored)
    plain.train()
    same = trainer_of(gpt(), tmp_path / "plain", max_steps=20)
    same.train(resume_from_checkpoint=str(tmp_path / "plain" / "out" / "checkpoint-10"))
    assert trainings.same(again.model.state_dict(), same.model.state_dict())
    with Run(run, write=False) as found:
        steps = found.steps()
    assert (min(steps) <= 1, max(steps)) == (True, 20)
    assert any(10 < step < 20 for step in steps)


def spoiled(at):
    class Spoiled(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **of):
            if self.state.global_step == at:
                with torch.no_grad():
                    model.transformer.h[1].mlp.c_fc.weight.fill_(float("nan"))
            return super().compute_loss(model, inputs, return_outputs, **of)

    return Spoiled


def test_alarms_reach_the_log_and_stop_training_where_asked(tmp_path):
    late = Losses()
    callback = watcher(stop_on=("non-finite",))
    trainer = trainer_of(gpt(), tmp_path, callback, late, by=spoiled(7), logging_steps=4)
    trainer.train()
    assert trainer.state.global_step == 8
    entry = next(e for e in trainer.state.log_history if any("alarm/" in name for name in e))
    assert entry["step"] == 8
    name = next(name for name in entry if name.startswith("alarm/non-finite/"))
    assert entry[name] == 1.0
    assert late.told[8][name] == 1.0  # callbacks after it are told with what is logged next
    free = trainer_of(gpt(), tmp_path, watcher(), by=spoiled(7))
    free.train()
    assert free.state.global_step == 12


class Fails(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == 3:
            raise RuntimeError("the cable was pulled")


@pytest.mark.parametrize("how", ["again", "close", "forgotten"])
def test_the_watch_of_a_training_that_failed_ends(tmp_path, how):
    callback, model = watcher(run=tmp_path / "a.run"), gpt()
    trainer = trainer_of(model, tmp_path, callback, Fails())
    with pytest.raises(RuntimeError, match="cable"):
        trainer.train()
    first = callback.watch
    assert first is not None
    if how == "again":
        trainer.remove_callback(Fails)
        trainer.train()
    elif how == "close":
        callback.close()
    del callback, trainer
    gc.collect()
    assert trainings.hooks(model) == 0


def test_what_fails_inside_is_one_line_and_training_goes_on(tmp_path, caplog):
    plain, watched = gpt(), gpt()
    trainer_of(plain, tmp_path, max_steps=4).train()
    callback = watcher(run=tmp_path / "none" / "a.run")
    with caplog.at_level(logging.WARNING, logger="sigmascope"):
        trainer_of(watched, tmp_path, callback, max_steps=4).train()
    assert trainings.same(plain.state_dict(), watched.state_dict())
    told = [r.getMessage() for r in caplog.records if r.name.startswith("sigmascope")]
    assert len(told) == 1
    assert "none" in told[0]


def test_a_model_that_is_watched_can_be_copied_and_stored(tmp_path):
    class Stores(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **_):
            trainings.require_picklable(callback)
            copy.deepcopy(callback)
            assert copy.deepcopy(model) is not model
            torch.save(model, tmp_path / "model.pt")

    callback = watcher(run=tmp_path / "a.run")
    of = {"save_strategy": "steps", "save_steps": 2, "max_steps": 3}
    trainer_of(gpt(), tmp_path, callback, Stores(), **of).train()
    assert (tmp_path / "out" / "checkpoint-2" / "model.safetensors").exists()
    model = torch.load(tmp_path / "model.pt", weights_only=False)
    assert model.train()(**{k: v[None] for k, v in texts()[0].items()}).loss > 0


def test_a_keyword_that_watch_does_not_know_is_refused():
    with pytest.raises(Refusal, match=r"got interval\. Leave out or rename"):
        SigmascopeCallback(interval=10)


def test_without_transformers_it_says_how_to_get_it():
    assert "pip install 'sigmascope[hf]'" in told_without("transformers", "transformers")
