import gzip
import logging
import os
import warnings

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def read(name, offset):
    path = os.path.join(os.environ["SIGMASCOPE_DATA"], "fashion-mnist", name)
    with gzip.open(path) as f:
        return np.frombuffer(f.read(), np.uint8, offset=offset)


class FashionModule(L.LightningModule):
    def __init__(self, max_lr=0.05, steps_per_epoch=1, epochs=1):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10),
        )

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        acc = (self(x).argmax(1) == y).float().mean()
        self.log("val_acc", acc, on_epoch=True)

    def on_validation_epoch_end(self):
        print("epoch", self.current_epoch, "val_acc", f"{self.trainer.callback_metrics['val_acc'].item():.4f}")

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.max_lr, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            max_lr=self.hparams.max_lr,
            total_steps=self.hparams.steps_per_epoch * self.hparams.epochs,
            div_factor=100,
        )
        return [optimizer], [scheduler]


def main():
    L.seed_everything(0, verbose=False)
    X = torch.from_numpy(read("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)[:5000].copy()).float() / 255
    y = torch.from_numpy(read("train-labels-idx1-ubyte.gz", 8)[:5000].copy()).long()
    X = (X - 0.286) / 0.353
    train = DataLoader(TensorDataset(X[:4000], y[:4000]), batch_size=64, shuffle=True)
    val = DataLoader(TensorDataset(X[4000:], y[4000:]), batch_size=250)
    epochs = 3
    model = FashionModule(steps_per_epoch=len(train), epochs=epochs)
    trainer = L.Trainer(max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(model, train, val)
    print("final accuracy", round(trainer.callback_metrics["val_acc"].item(), 4))


if __name__ == "__main__":
    main()
