import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

CFG = {
    "batch_size": 64,
    "accum": 2,
    "epochs": 12,
    "lr": 3e-3,
    "hidden": 64,
}


def build(hidden):
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 10))


def main(cfg):
    set_seed(77)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=cfg["accum"])
    x, y = load_digits(return_X_y=True)
    x_tr, x_te, y_tr, y_te = train_test_split(x / 16, y, random_state=77)
    train_ds = TensorDataset(torch.tensor(x_tr, dtype=torch.float32), torch.tensor(y_tr))
    test_ds = TensorDataset(torch.tensor(x_te, dtype=torch.float32), torch.tensor(y_te))
    train_dl = DataLoader(train_ds, batch_size=cfg["batch_size"], shuffle=True)
    test_dl = DataLoader(test_ds, batch_size=256)
    model = build(cfg["hidden"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"])
    model, optimizer, train_dl, test_dl = accelerator.prepare(model, optimizer, train_dl, test_dl)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(cfg["epochs"]):
        model.train()
        seen = 0.0
        for xb, yb in train_dl:
            with accelerator.accumulate(model):
                loss = criterion(model(xb), yb)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            seen += loss.item()
        accelerator.print(f"epoch {epoch}: {seen / len(train_dl):.4f}")

    model.eval()
    correct = total = 0
    for xb, yb in test_dl:
        with torch.no_grad():
            pred = model(xb).argmax(dim=-1)
        pred, yb = accelerator.gather_for_metrics((pred, yb))
        correct += (pred == yb).sum().item()
        total += len(yb)
    accelerator.print("final accuracy", correct / total)


if __name__ == "__main__":
    main(CFG)
