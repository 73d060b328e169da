import argparse
import gzip
import os

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset


def fashion(root, part, n):
    d = os.path.join(root, "fashion-mnist")
    with gzip.open(f"{d}/{part}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(16 + n * 784), np.uint8, offset=16).reshape(n, 1, 28, 28)
    with gzip.open(f"{d}/{part}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(8 + n), np.uint8, offset=8)
    return TensorDataset(torch.tensor(x / 255.0, dtype=torch.float32), torch.tensor(y, dtype=torch.long))


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


def model_for(width):
    return nn.Sequential(conv(1, width), conv(width, 2 * width), conv(2 * width, 2 * width), nn.Flatten(),
                         nn.Linear(2 * width * 16, 10))


def train_one_epoch(model, loader, opt, loss_fn):
    model.train()
    run = 0.0
    for x, y in loader:
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        run += loss.item()
    return run / len(loader)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    return sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default=os.environ.get("SIGMASCOPE_DATA", "data"))
    ap.add_argument("--epochs", type=int, default=9)
    ap.add_argument("--swa-start", type=int, default=5)
    ap.add_argument("--lr", type=float, default=0.08)
    ap.add_argument("--swa-lr", type=float, default=0.03)
    ap.add_argument("--width", type=int, default=12)
    args = ap.parse_args()
    torch.manual_seed(0)
    train = DataLoader(fashion(args.data, "train", 5000), 64, shuffle=True, drop_last=True)
    test = DataLoader(fashion(args.data, "t10k", 1500), 300)
    model = model_for(args.width)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.swa_start)
    averaged = AveragedModel(model)
    swa_sched = SWALR(opt, swa_lr=args.swa_lr, anneal_epochs=1)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, train, opt, loss_fn)
        if epoch >= args.swa_start:
            averaged.update_parameters(model)
            swa_sched.step()
        else:
            cosine.step()
        print(f"epoch {epoch} loss {loss:.4f} lr {opt.param_groups[0]['lr']:.4f} acc {evaluate(model, test):.4f}")
    update_bn(train, averaged)
    print(f"final accuracy {evaluate(averaged, test):.4f}")


if __name__ == "__main__":
    main()
