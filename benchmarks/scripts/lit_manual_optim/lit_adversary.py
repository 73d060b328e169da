import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import warnings

warnings.filterwarnings("ignore")


class PointGAN(L.LightningModule):
    def __init__(self, zdim=4, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(zdim, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
        self.bce = nn.BCEWithLogitsLoss()

    def training_step(self, batch, batch_idx):
        opt_g, opt_d = self.optimizers()
        real = batch[0]
        z = torch.randn(len(real), self.hparams.zdim)
        one, zero = torch.ones(len(real), 1), torch.zeros(len(real), 1)

        d_loss = self.bce(self.discriminator(real), one) + self.bce(self.discriminator(self.generator(z).detach()), zero)
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()

        g_loss = self.bce(self.discriminator(self.generator(z)), one)
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        if batch_idx == 0 and self.current_epoch % 4 == 0:
            print("epoch", self.current_epoch, "d", round(d_loss.item(), 3), "g", round(g_loss.item(), 3))

    def configure_optimizers(self):
        d = torch.optim.Adam(self.discriminator.parameters(), lr=self.hparams.lr, betas=(0.5, 0.9))
        g = torch.optim.Adam(self.generator.parameters(), lr=self.hparams.lr, betas=(0.5, 0.9))
        return [d, g]


if __name__ == "__main__":
    L.seed_everything(21)
    angle = torch.rand(2000) * 3.14159
    pts = torch.stack([2 + angle.cos(), -1 + angle.sin()], 1) + 0.05 * torch.randn(2000, 2)
    loader = DataLoader(TensorDataset(pts), batch_size=64, shuffle=True, drop_last=True)
    gan = PointGAN()
    trainer = L.Trainer(max_epochs=16, accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(gan, loader)
    gan.eval()
    with torch.no_grad():
        fake = gan.generator(torch.randn(500, 4))
    gap = torch.cdist(fake, pts).min(1).values.mean() + torch.cdist(pts, fake).min(1).values.mean()
    print("final chamfer", gap.item())
