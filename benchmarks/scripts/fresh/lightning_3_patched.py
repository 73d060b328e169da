import logging
import os
import gzip
import warnings

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def fashion(part, n):
    root = os.path.join(os.environ.get("SIGMASCOPE_DATA", "data"), "fashion-mnist")
    with gzip.open(f"{root}/{part}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 1, 28, 28)
    with gzip.open(f"{root}/{part}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    return TensorDataset(torch.tensor(x / 255.0, dtype=torch.float32), torch.tensor(y, dtype=torch.long))


class PrototypeNet(L.LightningModule):
    """Class prototypes in the space of an encoder; the nearest one wins."""

    def __init__(self, dim=16, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(8, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 16, dim),
        )
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.prototypes = nn.Parameter(torch.randn(10, dim))

    def embed(self, x):
        z = self.encoder(x)
        return z / z.norm(dim=1, keepdim=True).clamp(min=1e-6) * z.shape[1] ** 0.5

    def forward(self, x):
        z = self.embed(x)
        return -self.scale * torch.cdist(z, self.prototypes).pow(2)

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss, on_epoch=True, on_step=False)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("acc", (self(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=self.trainer.estimated_stepping_batches)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class Report(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        m = trainer.callback_metrics
        print(f"epoch {trainer.current_epoch} loss {m['loss']:.4f} acc {m['acc']:.4f}")


if __name__ == "__main__":
    L.seed_everything(9, verbose=False)
    train = DataLoader(fashion("train", 4000), batch_size=50, shuffle=True)
    valid = DataLoader(fashion("t10k", 1000), batch_size=250)
    trainer = L.Trainer(max_epochs=5, accelerator="cpu", gradient_clip_val=1.0, callbacks=[Report()], logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    net = PrototypeNet()
    trainer.fit(net, train, valid)
    print(f"final accuracy {trainer.callback_metrics['acc'].item():.4f}")
