import os
import random
import tempfile
import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(3)
    random.seed(3)
    X, y = load_digits(return_X_y=True)
    p = np.random.permutation(len(y))
    X, y = torch.tensor(X[p] / 16).float(), torch.tensor(y[p])
    train = DataLoader(TensorDataset(X[:1400], y[:1400]), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(X[1400:], y[1400:]), batch_size=100)
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Dropout(0.1), nn.Linear(96, 10))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, total_iters=220)
    model, opt, train, val, sched = accelerator.prepare(model, opt, train, val, sched)
    best = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "best.pt")
        for epoch in range(10):
            model.train()
            for xb, yb in train:
                with accelerator.accumulate(model):
                    loss = nn.functional.cross_entropy(model(xb), yb)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    opt.step()
                    sched.step()
                    opt.zero_grad()
            model.eval()
            with torch.no_grad():
                acc = sum((model(a).argmax(1) == b).sum().item() for a, b in val) / 397
            accelerator.print("epoch", epoch, "loss", round(loss.item(), 4), "acc", round(acc, 4))
            if acc > best:
                best = acc
                accelerator.save(accelerator.get_state_dict(model), path)
    print("final best_accuracy", best)


if __name__ == "__main__":
    main()
