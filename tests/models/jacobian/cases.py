"""Models of every kind of layer, and the truth about them, one sample at a time."""

import torch
from torch import nn
from torch.func import functional_call, jacrev


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6, padding_idx=0)
        self.up, self.norm, self.down = nn.Linear(6, 9), nn.LayerNorm(9), nn.Linear(9, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head((x + self.down(self.norm(self.up(x)).tanh())).mean(1))


class HalfTransposed(nn.Module):
    """Stores its weight as `[in, out]`, like the linear layers of GPT-2."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 7)), nn.Parameter(torch.randn(7))

    def forward(self, x):
        return x @ self.weight + self.bias


def images(*layers):
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3)), torch.randn(5, 4, 6, 6)


CASES = {
    "mlp": lambda: (nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), torch.randn(5, 4)),
    "no bias": lambda: (
        nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 3)),
        torch.randn(5, 4),
    ),
    "custom": lambda: (
        nn.Sequential(HalfTransposed(), nn.Tanh(), nn.Linear(7, 3)),
        torch.randn(5, 4),
    ),
    "tokens": lambda: (Tokens(), torch.randint(0, 11, (5, 7))),
    "one token": lambda: (
        nn.Sequential(nn.Embedding(11, 6), nn.Tanh(), nn.Linear(6, 3)),
        torch.randint(0, 11, (5,)),
    ),
    "many tokens": lambda: (Tokens(), torch.randint(0, 11, (2, 40))),
    "conv": lambda: images(nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.Tanh()),
    "circular": lambda: images(nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), nn.Tanh()),
    "same": lambda: images(nn.Conv2d(4, 6, 4, padding="same", dilation=2), nn.Tanh()),
    "grouped": lambda: images(nn.Conv2d(4, 6, (3, 1), groups=2, dilation=2), nn.Tanh()),
    "transposed": lambda: images(
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), nn.Tanh()
    ),
    "conv1d": lambda: (
        nn.Sequential(nn.Conv1d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.LazyLinear(2)),
        torch.randn(4, 3, 9),
    ),
    "group norm": lambda: images(nn.Conv2d(4, 6, 3), nn.GroupNorm(2, 6), nn.Tanh()),
    "instance norm": lambda: images(
        nn.Conv2d(4, 6, 3), nn.InstanceNorm2d(6, affine=True), nn.Tanh()
    ),
    "batch norm, eval": lambda: images(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6).eval(), nn.Tanh()),
    "rms norm": lambda: (
        nn.Sequential(nn.Linear(4, 6), nn.RMSNorm(6), nn.Tanh(), nn.Linear(6, 3)),
        torch.randn(5, 4),
    ),
}


def build(case):
    torch.manual_seed(0)
    model, batch = CASES[case]()
    model(batch)  # lazy layers take their shape
    model = model.double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    return model, batch.double() if batch.is_floating_point() else batch


def truth(model, batch):
    """`Σ_k ‖∂ f_k(x_i)/∂ p‖²` per sample, for every parameter."""
    parameters = dict(model.named_parameters())
    rows = []
    for i in range(len(batch)):
        J = jacrev(lambda p, i=i: functional_call(model, p, batch[i : i + 1])[0])(parameters)
        rows.append({k: j.detach().square().sum().item() for k, j in J.items()})
    return {k: torch.tensor([r[k] for r in rows], dtype=torch.float64) for k in parameters}
