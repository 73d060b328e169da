"""Trains in two goes, the second from the checkpoint of the first."""
import logging
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from sklearn.datasets import load_digits

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(message)s")


class Session:
    def __init__(self, folder, lr=0.05):
        self.path = Path(folder) / "last.pt"
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=0.9)
        self.sched = torch.optim.lr_scheduler.MultiStepLR(self.opt, [10, 14], gamma=0.2)
        self.epoch = 0
        if self.path.exists():
            state = torch.load(self.path)
            self.net.load_state_dict(state["net"])
            self.opt.load_state_dict(state["opt"])
            self.sched.load_state_dict(state["sched"])
            self.epoch = state["epoch"]
            logging.info("resumed at epoch %d", self.epoch)

    def save(self):
        torch.save({"net": self.net.state_dict(), "opt": self.opt.state_dict(), "sched": self.sched.state_dict(),
                    "epoch": self.epoch}, self.path)

    def run(self, x, y, until):
        while self.epoch < until:
            self.net.train()
            for i in torch.randperm(len(x)).split(64):
                loss = nn.functional.cross_entropy(self.net(x[i]), y[i])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
            self.sched.step()
            self.epoch += 1
            if self.epoch % 3 == 0:
                logging.info("epoch %d loss %.4f", self.epoch, loss.item())
        self.save()

    def accuracy(self, x, y):
        self.net.eval()
        with torch.no_grad():
            return (self.net(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    X, Y = load_digits(return_X_y=True)
    p = np.random.permutation(len(Y))
    X, Y = torch.tensor(X[p] / 16).float(), torch.tensor(Y[p])
    with tempfile.TemporaryDirectory() as folder:
        Session(folder).run(X[:1400], Y[:1400], until=8)
        session = Session(folder)
        session.run(X[:1400], Y[:1400], until=16)
        print("final accuracy", session.accuracy(X[1400:], Y[1400:]))
