import warnings
warnings.filterwarnings("ignore")
import lightning as L
import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(13, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))

    def training_step(self, batch, i):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("loss", loss, prog_bar=False)
        return loss

    def validation_step(self, batch, i):
        x, y = batch
        self.log("acc", (self.net(x).argmax(1) == y).float().mean())

    def on_train_epoch_end(self):
        if self.current_epoch % 10 == 0:
            print("epoch", self.current_epoch, "loss", self.trainer.callback_metrics["loss"].item())

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=5e-3)
        return [opt], [torch.optim.lr_scheduler.CosineAnnealingLR(opt, 50)]


L.seed_everything(1)
x, y = load_wine(return_X_y=True)
ds = TensorDataset(torch.tensor((x - x.mean(0)) / x.std(0)).float(), torch.tensor(y))
train, val = random_split(ds, [128, 50])
trainer = L.Trainer(max_epochs=50, accelerator="cpu", logger=False, enable_checkpointing=False, gradient_clip_val=1.0,
                    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Lit(), DataLoader(train, 16, shuffle=True), DataLoader(val, 50))
print("final acc", trainer.callback_metrics["acc"].item())
