import argparse
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def scene(n, size=16):
    """Three classes: background, square, disc; brightness differs from image to image."""
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    y = torch.zeros(n, size, size, dtype=torch.long)
    for m in y:
        cx, cy, r = random.randint(4, 11), random.randint(4, 11), random.randint(2, 4)
        m[(xx - cx).abs().maximum((yy - cy).abs()) <= r] = 1
        cx, cy, r = random.randint(4, 11), random.randint(4, 11), random.randint(2, 4)
        m[(xx - cx) ** 2 + (yy - cy) ** 2 <= r * r] = 2
    x = 6 * y.float().unsqueeze(1) + 1.5 * torch.randn(n, 1, size, size) + 10
    return x, y


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


def build():
    return nn.Sequential(conv_block(1, 16), conv_block(16, 16), conv_block(16, 16), conv_block(16, 16), nn.Conv2d(16, 3, 1))


def validate(net, x, y):
    net.eval()
    with torch.no_grad():
        return F.cross_entropy(net(x), y).item()


def train(net, x, y, opt, batch):
    losses = []
    for idx in torch.randperm(len(x)).split(batch):
        loss = F.cross_entropy(net(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    x, y = scene(400)
    xv, yv = scene(80)
    net = build()
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    print("epoch -1 val", validate(net, xv, yv))
    for epoch in range(args.epochs):
        train_loss = train(net, x, y, opt, args.batch)
        print("epoch", epoch, "train", round(train_loss, 4), "val", round(validate(net, xv, yv), 4))
    print("final val_loss", validate(net, xv, yv))


if __name__ == "__main__":
    main()
