import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class MatrixFactorization(nn.Module):
    def __init__(self, n_users, n_items, k=8):
        super().__init__()
        self.user = nn.Embedding(n_users, k)
        self.item = nn.Embedding(n_items, k)
        self.user_bias = nn.Embedding(n_users, 1)
        self.item_bias = nn.Embedding(n_items, 1)
        self.mu = nn.Parameter(torch.tensor(3.0))
        for e in (self.user, self.item):
            nn.init.normal_(e.weight, std=0.1)
        for e in (self.user_bias, self.item_bias):
            nn.init.zeros_(e.weight)

    def forward(self, u, i):
        dot = (self.user(u) * self.item(i)).sum(1)
        return self.mu + dot + self.user_bias(u).squeeze(1) + self.item_bias(i).squeeze(1)


def ratings(n_users=200, n_items=150, n=15000):
    g = torch.Generator().manual_seed(1)
    pu = torch.randn(n_users, 4, generator=g) * 0.7
    qi = torch.randn(n_items, 4, generator=g) * 0.7
    u = torch.randint(n_users, (n,), generator=g)
    i = torch.randint(n_items, (n,), generator=g)
    bias = 0.5 * torch.randn(n_items, generator=g)
    r = 3.2 + (pu[u] * qi[i]).sum(1) + bias[i] + 0.1 * torch.randn(n, generator=g)
    return TensorDataset(u, i, r)


def evaluate(model, loader):
    model.eval()
    se, n = 0.0, 0
    with torch.no_grad():
        for u, i, r in loader:
            se += ((model(u, i) - r) ** 2).sum().item()
            n += len(r)
    return (se / n) ** 0.5


def main():
    torch.manual_seed(1)
    data = ratings()
    train, test = random_split(data, [13500, 1500], generator=torch.Generator().manual_seed(2))
    train_dl = DataLoader(train, batch_size=256, shuffle=True)
    test_dl = DataLoader(test, batch_size=1500)
    model = MatrixFactorization(200, 150)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=0.05)
    for epoch in range(20):
        model.train()
        for u, i, r in train_dl:
            loss = nn.functional.mse_loss(model(u, i), r)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1:2d} train mse {loss.item():.4f} test rmse {evaluate(model, test_dl):.4f}")
    print("final rmse", round(evaluate(model, test_dl), 5))


if __name__ == "__main__":
    main()
