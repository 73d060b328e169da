from dataclasses import dataclass, field
import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits


@dataclass
class Hyper:
    code: int = 3
    hidden: int = 64
    steps: int = 700
    batch: int = 100
    lr_ae: float = 2e-3
    lr_adv: float = 1e-3
    adv_weight: float = 0.05
    seed: int = 202


class AdversarialAutoencoder(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, h.hidden), nn.ReLU(), nn.Linear(h.hidden, h.code))
        self.dec = nn.Sequential(nn.Linear(h.code, h.hidden), nn.ReLU(), nn.Linear(h.hidden, 64))
        self.critic = nn.Sequential(nn.Linear(h.code, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))


def main(h=Hyper()):
    torch.manual_seed(h.seed)
    x_all = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    net = AdversarialAutoencoder(h)
    opt_ae = torch.optim.Adam([*net.enc.parameters(), *net.dec.parameters()], lr=h.lr_ae)
    opt_c = torch.optim.Adam(net.critic.parameters(), lr=h.lr_adv)
    bce = nn.BCEWithLogitsLoss()
    real_lab, fake_lab = torch.ones(h.batch, 1), torch.zeros(h.batch, 1)
    log = []
    for step in range(h.steps):
        x = x_all[torch.randperm(len(x_all))[:h.batch]]
        code = net.enc(x)
        prior = torch.randn(h.batch, h.code)
        c_loss = bce(net.critic(prior), real_lab) + bce(net.critic(code.detach()), fake_lab)
        opt_c.zero_grad()
        c_loss.backward()
        opt_c.step()

        rec_loss = (net.dec(code) - x).pow(2).mean()
        adv_loss = bce(net.critic(code), real_lab)
        opt_ae.zero_grad()
        (rec_loss + h.adv_weight * adv_loss).backward()
        opt_ae.step()
        log.append((rec_loss.item(), adv_loss.item()))
        if step % 100 == 99:
            r, a = np.mean(log[-100:], axis=0)
            print(f"step {step + 1} rec {r:.4f} adv {a:.4f}")
    with torch.no_grad():
        samples = net.dec(torch.randn(500, h.code))
        score = torch.cdist(samples, x_all).min(1).values.mean().item() + torch.cdist(x_all, samples).min(1).values.mean().item()
    print("final sample_gap", score)


main()
