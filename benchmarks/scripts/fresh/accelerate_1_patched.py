import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

EPOCHS_PRE, EPOCHS_NEW = 15, 25


class Encoder(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(),
        )

    def forward(self, x):
        return self.layers(x)


class Classifier(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.encoder = Encoder()
        self.fc = nn.Linear(64, n_classes)

    def forward(self, x):
        return self.fc(self.encoder(x))


def get_data():
    d = load_digits()
    x = torch.tensor(d.data, dtype=torch.float32) / 16.0
    y = torch.tensor(d.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(4))
    x, y = x[order], y[order]
    return x[:700], y[:700], x[700:1300], y[700:1300], x[1300:], y[1300:]


def loop(accelerator, model, optimizer, loader, epochs, tag):
    for ep in range(epochs):
        model.train()
        tot = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()
            tot += loss.item()
        if ep % 5 == 4:
            accelerator.print(f"{tag} epoch {ep + 1} loss {tot / len(loader):.4f}")


def main():
    set_seed(42)
    accelerator = Accelerator(cpu=True)
    x1, y1, x2, y2, xt, yt = get_data()

    # stage one: five coarse groups
    model = Classifier(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(x1, y1 // 2), batch_size=32, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    loop(accelerator, model, optimizer, loader, EPOCHS_PRE, "coarse")

    # stage two: the ten digits on the features learned so far
    model = accelerator.unwrap_model(model)
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    model.fc = nn.Linear(64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loader = DataLoader(TensorDataset(x2, y2), batch_size=32, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    loop(accelerator, model, optimizer, loader, EPOCHS_NEW, "fine")

    model.eval()
    with torch.no_grad():
        acc = (model(xt).argmax(1) == yt).float().mean().item()
    accelerator.print(f"final accuracy {acc:.4f}")


if __name__ == "__main__":
    main()
