import argparse
import warnings

import lightning as L
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

warnings.filterwarnings("ignore")

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--seed", type=int, default=17)
hp = parser.parse_args()
L.seed_everything(hp.seed)


class ConvModule(L.LightningModule):
    automatic_optimization = True

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )
        self.fc = nn.Linear(48, 10)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))

    def training_step(self, batch, i):
        loss = cross_entropy(self(batch[0]), batch[1])
        if self.global_step % 50 == 0:
            print("step", self.global_step, "loss", float(loss))
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=hp.lr)


d = load_digits()
order = np.random.permutation(len(d.target))
x = torch.from_numpy(d.images[order]).float().unsqueeze(1) / 16
y = torch.from_numpy(d.target[order])
loader = torch.utils.data.DataLoader(list(zip(x[:1400], y[:1400])), batch_size=64, shuffle=True)
module = ConvModule()
L.Trainer(max_epochs=hp.epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
          enable_progress_bar=False, enable_model_summary=False).fit(module, loader)
module.eval()
with torch.no_grad():
    acc = (module(x[1400:]).argmax(1) == y[1400:]).float().mean().item()
print("final acc", acc)
