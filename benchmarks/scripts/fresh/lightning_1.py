import logging
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(21, verbose=False)


class DigitsData(L.LightningDataModule):
    def __init__(self, batch_size=32):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage=None):
        d = load_digits()
        x = torch.tensor(d.data, dtype=torch.float32) / 16
        y = torch.tensor(d.target)
        a, b, ya, yb = train_test_split(x, y, test_size=0.25, random_state=0, stratify=y)
        self.train, self.val = TensorDataset(a, ya), TensorDataset(b, yb)

    def train_dataloader(self):
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, 128)


class QuadrantNet(L.LightningModule):
    """One small branch per quadrant of the image, joined by a linear read-out."""

    def __init__(self, hidden=12, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        names = ["top_left", "top_right", "bottom_left", "bottom_right"]
        self.branches = {
            n: nn.Sequential(nn.Linear(16, hidden), nn.Tanh(), nn.Linear(hidden, 3), nn.Tanh()) for n in names
        }
        self.readout = nn.Linear(3 * len(names), 10)

    def split(self, x):
        img = x.view(-1, 8, 8)
        return {
            "top_left": img[:, :4, :4],
            "top_right": img[:, :4, 4:],
            "bottom_left": img[:, 4:, :4],
            "bottom_right": img[:, 4:, 4:],
        }

    def forward(self, x):
        parts = self.split(x)
        feats = [self.branches[k](v.reshape(len(v), -1)) for k, v in parts.items()]
        return self.readout(torch.cat(feats, dim=1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss, on_epoch=True, on_step=False)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        acc = (self(x).argmax(1) == y).float().mean()
        self.log("val_acc", acc, on_epoch=True)

    def on_validation_epoch_end(self):
        m = self.trainer.callback_metrics
        if not self.trainer.sanity_checking and self.current_epoch % 5 == 0:
            print(f"epoch {self.current_epoch} val_acc {float(m['val_acc']):.4f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    dm = DigitsData()
    net = QuadrantNet()
    trainer = L.Trainer(
        max_epochs=20,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(net, dm)
    result = trainer.validate(net, dm, verbose=False)[0]
    print(f"final accuracy {result['val_acc']:.4f}")
