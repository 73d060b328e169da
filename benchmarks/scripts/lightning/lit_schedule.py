import warnings
warnings.filterwarnings("ignore")
import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

pl.seed_everything(3, workers=True)


class Waves(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.rand(n, 6, generator=g) * 4 - 2
        self.y = torch.sin(self.x).sum(1, keepdim=True) + self.x[:, :1] * self.x[:, 1:2]

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class WaveModel(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.net(x), y)

    def training_step(self, batch, idx):
        return self.step(batch)

    def validation_step(self, batch, idx):
        self.log("val_loss", self.step(batch))

    def on_train_epoch_end(self):
        if self.current_epoch % 4 == 0:
            print("epoch", self.current_epoch, "lr", self.trainer.optimizers[0].param_groups[0]["lr"])

    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters(), lr=5e-3)
        sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.85)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


if __name__ == "__main__":
    model = WaveModel()
    trainer = pl.Trainer(max_epochs=16, accelerator="cpu", logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, DataLoader(Waves(3000, 0), batch_size=100, shuffle=True), DataLoader(Waves(500, 1), batch_size=500))
    print("final val_loss", trainer.callback_metrics["val_loss"].item())
