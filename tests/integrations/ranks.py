"""A training of Lightning in two processes, in one of several ways, for its tests."""

import sys

import lightning.pytorch as pl
import torch
from torch.nn import functional as F

from sigmascope.integrations.lightning import SigmascopeCallback
from sigmascope.integrations.tables import CSV
from tests.integrations import trainings


class Module(pl.LightningModule):
    def __init__(self, bad_at):
        super().__init__()
        self.net, self.bad_at = trainings.net(), bad_at

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        bad = self.trainer.global_step == self.bad_at and self.global_rank == 1
        return loss * float("nan") if bad else loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Steps(pl.Callback):
    """Prints the weights' sum and the steps of every rank."""

    def on_train_end(self, trainer, module):
        total = sum(float(p.detach().double().sum()) for p in module.parameters())
        print(f"rank {trainer.global_rank}: {trainer.global_step} steps, {total!r}", flush=True)


def main(how, folder):
    of = {
        "plain": None,
        "watched": {"run": f"{folder}/a.run", "sinks": [CSV(f"{folder}/a.csv")]},
        "stopped": {"stop_on": ("non-finite",)},
        "broken": {"run": f"{folder}/none/a.run"},
    }[how]
    callbacks = [] if of is None else [SigmascopeCallback(clock=trainings.stopped, **of)]
    trainer = pl.Trainer(
        accelerator="cpu", devices=2, strategy="ddp_fork", max_epochs=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[*callbacks, Steps()],
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(trainings.data(48), batch_size=4)
    trainer.fit(Module(7 if how == "stopped" else None), loader)


if __name__ == "__main__":
    main(*sys.argv[1:])
