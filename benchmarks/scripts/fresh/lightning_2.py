import logging
import warnings

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")


class Oscillators(Dataset):
    """Damped oscillations with noise; the task is to tell amplitude, frequency and damping."""

    def __init__(self, n=3000, length=48, seed=0):
        r = np.random.default_rng(seed)
        t = np.linspace(0, 4, length)
        a, w, d = r.uniform(0.5, 1.5, n), r.uniform(1, 6, n), r.uniform(0.05, 0.8, n)
        sig = a[:, None] * np.exp(-d[:, None] * t) * np.cos(w[:, None] * t) + 0.03 * r.standard_normal((n, length))
        y = np.stack([a, w, d], 1)
        y = (y - y.mean(0)) / y.std(0)
        self.x = torch.tensor(sig, dtype=torch.float32)
        self.y = torch.tensor(y, dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Estimator(pl.LightningModule):
    def __init__(self, n_in=48, lr=0.03):
        super().__init__()
        self.automatic_optimization = False
        self.lr = lr
        self.net = nn.Sequential(nn.Linear(n_in, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 3))
        self.errors = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        opt = self.optimizers()
        noisy = x + 0.01 * torch.randn_like(x)
        loss = nn.functional.smooth_l1_loss(self(noisy), y)
        self.manual_backward(loss)
        opt.step()
        self.log("loss", loss, on_epoch=True)

    def on_train_epoch_end(self):
        self.lr_schedulers().step()

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.errors.append(((self(x) - y) ** 2).mean(1))

    def on_validation_epoch_end(self):
        mse = torch.cat(self.errors).mean()
        self.errors.clear()
        self.log("val_mse", mse)
        if self.current_epoch % 4 == 0:
            print(f"epoch {self.current_epoch:2d}  val mse {mse.item():.4f}")

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)
        return [opt], [torch.optim.lr_scheduler.ExponentialLR(opt, 0.95)]


def run():
    pl.seed_everything(5, verbose=False)
    ds = Oscillators()
    tr, va = random_split(ds, [2500, 500])
    train = DataLoader(tr, batch_size=50, shuffle=True)
    val = DataLoader(va, batch_size=250)
    module = Estimator()
    trainer = pl.Trainer(max_epochs=12, accelerator="cpu", logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(module, train, val)
    print(f"final mse {trainer.callback_metrics['val_mse'].item():.5f}")


if __name__ == "__main__":
    run()
