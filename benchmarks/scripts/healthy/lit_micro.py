import warnings
import lightning as L
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


class MicroBatches(L.LightningModule):
    def __init__(self, every=4):
        super().__init__()
        self.automatic_optimization = False
        self.every = every
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch, idx):
        opt = self.optimizers()
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.manual_backward(loss / self.every)
        if (idx + 1) % self.every == 0 or self.trainer.is_last_batch:
            self.clip_gradients(opt, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
            opt.step()
            opt.zero_grad()
        if idx == 0:
            print("epoch", self.current_epoch, "loss", round(loss.item(), 4))

    def validation_step(self, batch, idx):
        x, y = batch
        self.log("val_acc", (self.model(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=4e-3)


L.seed_everything(55)
d = load_digits()
x, y = torch.tensor(d.images / 16, dtype=torch.float32), torch.tensor(d.target)
p = torch.randperm(len(x))
trainer = L.Trainer(max_epochs=8, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False)
trainer.fit(MicroBatches(), DataLoader(TensorDataset(x[p[:1400]], y[p[:1400]]), batch_size=16, shuffle=True),
            DataLoader(TensorDataset(x[p[1400:]], y[p[1400:]]), batch_size=397))
print("final val_acc", trainer.callback_metrics["val_acc"].item())
