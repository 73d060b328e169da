import tempfile
import warnings

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from sklearn.datasets import load_digits
from transformers import Trainer, TrainingArguments, set_seed

warnings.filterwarnings("ignore")
set_seed(42)


class DigitDataset(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"pixels": self.x[i], "labels": self.y[i]}


class DigitModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, pixels, labels=None):
        logits = self.net(pixels)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


X, y = load_digits(return_X_y=True)
perm = np.random.permutation(len(y))
X = torch.tensor(X[perm] / 16, dtype=torch.float32)
y = torch.tensor(y[perm])

with tempfile.TemporaryDirectory() as out:
    args = TrainingArguments(
        output_dir=out, max_steps=400, per_device_train_batch_size=32, learning_rate=2e-3, logging_steps=100,
        save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True, seed=42,
    )
    trainer = Trainer(
        model=DigitModel(), args=args, train_dataset=DigitDataset(X[:1400], y[:1400]),
        eval_dataset=DigitDataset(X[1400:], y[1400:]),
    )
    trainer.train()
    metrics = trainer.evaluate()
print("final eval_loss", round(metrics["eval_loss"], 5))
