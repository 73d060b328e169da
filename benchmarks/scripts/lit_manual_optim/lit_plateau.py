import warnings
import logging

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(3)


class PlateauRegressor(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        self.losses = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        opt = self.optimizers()
        loss = F.mse_loss(self.net(x), y)
        opt.zero_grad()
        self.manual_backward(loss)
        opt.step()
        self.losses.append(loss.item())
        self.lr_schedulers().step(loss.item())

    def on_train_epoch_end(self):
        mean = sum(self.losses) / len(self.losses)
        self.losses.clear()
        if self.current_epoch % 5 == 0:
            print(f"epoch {self.current_epoch} loss {mean:.4f}")

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_mse", F.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters(), lr=2e-3)
        return [opt], [torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.3, patience=3)]


X = torch.randn(1200, 8)
Y = (torch.sin(2 * X[:, :1]) * X[:, 1:2] + X[:, 2:3].abs()) + 0.1 * torch.randn(1200, 1)
train = DataLoader(TensorDataset(X[:1000], Y[:1000]), batch_size=32, shuffle=True)
val = DataLoader(TensorDataset(X[1000:], Y[1000:]), batch_size=200)
trainer = L.Trainer(max_epochs=16, accelerator="cpu", logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(PlateauRegressor(), train, val)
print("final val_mse", trainer.callback_metrics["val_mse"].item())
