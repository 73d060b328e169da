import logging
import warnings

import lightning as L
import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")


class WineData(L.LightningDataModule):
    def setup(self, stage):
        x, y = load_wine(return_X_y=True)
        ds = TensorDataset(torch.tensor(scale(x), dtype=torch.float32), torch.tensor(y))
        self.train, self.val = torch.utils.data.random_split(ds, [130, 48])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=26, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=48)


class WineClassifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x):
        return torch.softmax(self.layers(x), dim=-1)

    def training_step(self, batch, _):
        x, y = batch
        loss = self.loss(self(x), y)
        self.log("train_loss", loss, on_epoch=True, on_step=False)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_loss", self.loss(self(x), y))

    def on_train_epoch_end(self):
        if (self.current_epoch + 1) % 10 == 0:
            print(self.current_epoch + 1, {k: round(v.item(), 4) for k, v in self.trainer.callback_metrics.items()})

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-3)


def main():
    L.seed_everything(0, verbose=False)
    trainer = L.Trainer(max_epochs=60, accelerator="cpu", enable_progress_bar=False, logger=False,
                        enable_checkpointing=False, enable_model_summary=False)
    trainer.fit(WineClassifier(), datamodule=WineData())
    print(f"final val_loss {trainer.callback_metrics['val_loss'].item():.5f}")


main()
