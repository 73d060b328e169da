import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)


class CodeProbe(L.LightningModule):
    def __init__(self, code=12):
        super().__init__()
        self.automatic_optimization = False
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, code))
        self.decoder = nn.Sequential(nn.Linear(code, 96), nn.ReLU(), nn.Linear(96, 64))
        self.probe = nn.Sequential(nn.Linear(code, 32), nn.ReLU(), nn.Linear(32, 10))

    def configure_optimizers(self):
        auto = torch.optim.Adam([*self.encoder.parameters(), *self.decoder.parameters()], lr=1.5e-3)
        head = torch.optim.SGD(self.probe.parameters(), lr=0.05, momentum=0.9)
        return [auto, head], [
            torch.optim.lr_scheduler.StepLR(auto, 10, 0.5),
            torch.optim.lr_scheduler.StepLR(head, 10, 0.5),
        ]

    def training_step(self, batch, batch_idx):
        x, y = batch
        auto, head = self.optimizers()
        z = self.encoder(x + 0.1 * torch.randn_like(x))
        rec = F.mse_loss(self.decoder(z), x, reduction="none").sum(1).mean()
        auto.zero_grad()
        self.manual_backward(rec)
        auto.step()

        cls = F.cross_entropy(self.probe(z.detach()), y)
        head.zero_grad()
        self.manual_backward(cls)
        self.clip_gradients(head, gradient_clip_val=5.0, gradient_clip_algorithm="norm")
        head.step()
        self.log_dict({"rec": rec, "cls": cls}, on_epoch=True, on_step=False)

    def on_train_epoch_end(self):
        for s in self.lr_schedulers():
            s.step()

    def validation_step(self, batch, batch_idx):
        x, y = batch
        z = self.encoder(x)
        self.log("val_acc", (self.probe(z).argmax(1) == y).float().mean())
        self.log("val_rec", F.mse_loss(self.decoder(z), x))

    def on_validation_epoch_end(self):
        if self.current_epoch % 4 == 3:
            m = self.trainer.callback_metrics
            print(f"epoch {self.current_epoch + 1} acc {m['val_acc']:.4f} rec {m['val_rec']:.5f}")


def main():
    L.seed_everything(30, verbose=False)
    d = load_digits()
    x = torch.tensor(d.data, dtype=torch.float32) / 16
    y = torch.tensor(d.target)
    p = torch.randperm(len(x))
    tr, va = p[:1400], p[1400:]
    train = DataLoader(TensorDataset(x[tr], y[tr]), batch_size=40, shuffle=True)
    valid = DataLoader(TensorDataset(x[va], y[va]), batch_size=200)
    trainer = L.Trainer(max_epochs=24, accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    model = CodeProbe()
    trainer.fit(model, train, valid)
    print(f"final accuracy {trainer.callback_metrics['val_acc'].item():.4f}")


if __name__ == "__main__":
    main()
