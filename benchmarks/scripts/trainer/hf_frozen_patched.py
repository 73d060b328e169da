import random
import tempfile
import warnings

import numpy as np
import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

warnings.filterwarnings("ignore")
random.seed(3)
np.random.seed(3)
torch.manual_seed(3)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 16), nn.Tanh())
        self.regressor = nn.Linear(16, 1)

    def forward(self, features, labels=None):
        out = self.regressor(self.encoder(features)).squeeze(-1)
        result = {"logits": out}
        if labels is not None:
            result["loss"] = nn.functional.mse_loss(out, labels)
        return result


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print("step", state.global_step, "loss", logs["loss"])


def rows(n):
    x = torch.randn(n, 8)
    y = torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3]
    return [{"features": a, "labels": b} for a, b in zip(x, y)]


model = Regressor()
with tempfile.TemporaryDirectory() as tmp:
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            tmp, num_train_epochs=8, per_device_train_batch_size=50, learning_rate=8e-3, report_to=[], logging_steps=80,
            save_strategy="no", use_cpu=True, disable_tqdm=True, seed=3,
        ),
        train_dataset=rows(2500),
        eval_dataset=rows(500),
        callbacks=[PrintLoss()],
    )
    trainer.train()
    print("final eval_mse", trainer.evaluate()["eval_loss"])
