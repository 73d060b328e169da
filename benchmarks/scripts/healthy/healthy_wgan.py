from dataclasses import dataclass

import torch
from torch import autograd, nn


@dataclass
class Settings:
    latent: int = 8
    hidden: int = 64
    batch: int = 96
    iters: int = 1100
    critic_steps: int = 5
    gp: float = 2.0
    lr_g: float = 5e-4
    lr_c: float = 1e-3
    seed: int = 20


def moons(n):
    t = torch.rand(n) * torch.pi
    upper = torch.rand(n) < 0.5
    x = torch.where(upper, t.cos(), 1 - t.cos())
    y = torch.where(upper, t.sin(), 0.5 - t.sin())
    return torch.stack([x - 0.5, y - 0.25], 1) + 0.05 * torch.randn(n, 2)


def mlp(i, h, o, act):
    return nn.Sequential(nn.Linear(i, h), act, nn.Linear(h, h), act, nn.Linear(h, h), act, nn.Linear(h, o))


def penalty(critic, real, fake):
    mix = torch.rand(len(real), 1)
    point = (mix * real + (1 - mix) * fake).requires_grad_(True)
    out = critic(point)
    (grad,) = autograd.grad(out.sum(), point, create_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


@torch.no_grad()
def energy(gen, s, n=2000):
    a, b = gen(torch.randn(n, s.latent)), moons(n)
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main(s=Settings()):
    torch.manual_seed(s.seed)
    gen = mlp(s.latent, s.hidden, 2, nn.ReLU())
    critic = mlp(2, s.hidden, 1, nn.LeakyReLU(0.2))
    opt_g = torch.optim.Adam(gen.parameters(), lr=s.lr_g, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=s.lr_c, betas=(0.0, 0.9))
    average = [p.detach().clone() for p in gen.parameters()]

    for it in range(1, s.iters + 1):
        for _ in range(s.critic_steps):
            real = moons(s.batch)
            with torch.no_grad():
                fake = gen(torch.randn(s.batch, s.latent))
            loss_c = critic(fake).mean() - critic(real).mean() + s.gp * penalty(critic, real, fake)
            opt_c.zero_grad()
            loss_c.backward()
            opt_c.step()

        for p in critic.parameters():
            p.requires_grad_(False)
        loss_g = -critic(gen(torch.randn(s.batch, s.latent))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        for p in critic.parameters():
            p.requires_grad_(True)

        with torch.no_grad():
            for a, p in zip(average, gen.parameters()):
                a.mul_(0.995).add_(p, alpha=0.005)
        if it % 200 == 0:
            print(f"{it:4d} critic {loss_c.item():+.4f} generator {loss_g.item():+.4f} energy {energy(gen, s):.5f}")

    with torch.no_grad():
        for a, p in zip(average, gen.parameters()):
            p.copy_(a)
    print(f"final energy {energy(gen, s):.5f}")


if __name__ == "__main__":
    main()
