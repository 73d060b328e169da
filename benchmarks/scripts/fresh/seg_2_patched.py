import argparse
import os
import tempfile

import torch
from torch import nn

CLASSES = ("ground", "disc", "bar", "frame")


def render(n, size, gen):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    imgs = torch.zeros(n, 3, size, size)
    labels = torch.zeros(n, size, size, dtype=torch.long)
    u = lambda lo, hi: float(torch.empty(1).uniform_(lo, hi, generator=gen))
    for b in range(n):
        shapes = {}
        r = u(3, 5)
        shapes[1] = (yy - u(5, size - 5)) ** 2 + (xx - u(5, size - 5)) ** 2 < r * r
        top = int(u(1, size - 4))
        shapes[2] = (yy >= top) & (yy < top + 3)
        a, c, s = int(u(0, size - 9)), int(u(0, size - 9)), int(u(6, 9))
        box = (yy >= a) & (yy < a + s) & (xx >= c) & (xx < c + s)
        core = (yy > a + 1) & (yy < a + s - 2) & (xx > c + 1) & (xx < c + s - 2)
        shapes[3] = box & ~core
        for k, m in shapes.items():
            labels[b][m] = k
            tint = torch.rand(3, generator=gen) * 0.5 + 0.4
            imgs[b][:, m] = tint[:, None]
    imgs += 0.1 * torch.randn(imgs.shape, generator=gen)
    return imgs, labels


class FCN(nn.Module):
    def __init__(self, c=16, k=len(CLASSES)):
        super().__init__()
        dil = [1, 1, 2, 4, 1]
        chans = [3] + [c] * len(dil)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(i, o, 3, padding=d, dilation=d), nn.GroupNorm(4, o), nn.ELU())
            for i, o, d in zip(chans[:-1], chans[1:], dil)
        )
        self.classify = nn.Conv2d(c, k, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.classify(x)


def flatten_scores(scores):
    k = scores.shape[1]
    return scores.permute(0, 2, 3, 1).reshape(-1, k)


@torch.no_grad()
def mean_iou(model, x, y):
    model.eval()
    pred = torch.cat([model(c).argmax(1) for c in x.split(50)])
    vals = []
    for k in range(len(CLASSES)):
        p, t = pred == k, y == k
        vals.append(((p & t).sum() / (p | t).sum().clamp(min=1)).item())
    return sum(vals) / len(vals), vals


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--batch", type=int, default=20)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--out", default=tempfile.mkdtemp())
    args = ap.parse_args()
    gen = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    x, y = render(400, 24, gen)
    xt, yt = render(100, 24, gen)
    model = FCN()
    weight = torch.tensor([0.5, 1.0, 1.0, 1.0])
    loss_fn = nn.CrossEntropyLoss(weight=weight)
    opt = torch.optim.RMSprop(model.parameters(), lr=args.lr, alpha=0.95)
    for epoch in range(args.epochs):
        model.train()
        for idx in torch.randperm(len(x)).split(args.batch):
            loss = loss_fn(flatten_scores(model(x[idx])), y[idx].reshape(-1))
            opt.zero_grad()
            loss.backward()
            opt.step()
        score, per = mean_iou(model, xt, yt)
        print(f"epoch {epoch} loss {loss.item():.4f} miou {score:.4f}", " ".join(f"{n}={v:.2f}" for n, v in zip(CLASSES, per)))
        torch.save({"model": model.state_dict(), "epoch": epoch}, os.path.join(args.out, "last.pt"))
    print(f"final miou {score:.4f}")


if __name__ == "__main__":
    main()
