"""One small model, trained the same in one process and in every layout over several."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from sigmascope.watching import Watch
from watching.made import Shelf

STEPS, ROWS, WORDS, WIDTH = 14, 12, 5, 16


class Attend(nn.Module):
    """Four heads, or as many of them as this process holds."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            f(x).unflatten(-1, (-1, WIDTH // 4)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(out.transpose(1, 2).flatten(2))


class Small(nn.Module):
    """Attention, units that saturate and units that die, weights of one dimension."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attend = Attend()
        self.up, self.act, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(32, WIDTH)
        self.squash, self.head = nn.Tanh(), nn.Linear(WIDTH, 3)
        with torch.no_grad():
            self.up.bias[::5] = -50.0  # dead

    def forward(self, x):
        x = x + self.attend(self.norm(x))
        x = x + self.down(self.act(self.up(x)))
        return self.head(self.squash(3 * x))


def small():
    torch.manual_seed(0)
    return Small().double()


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(ROWS, WORDS, WIDTH, generator=generator, dtype=torch.float64)


class Kept(Shelf):
    """A sink that keeps the looks."""

    def values(self):
        found = {}
        for look in self.looks:
            for r in look.readings:
                if r.quantity != "watched share":
                    found[look.step, r.site, r.quantity, r.form] = r.estimate.value
            for step, r in look.losses:
                found[step, r.site, r.quantity, r.form] = r.estimate.value
            for s in look.spectra:
                for i, value in enumerate(s.spectrum.sigma.tolist()):
                    found[look.step, s.site, "spectrum", str(i)] = value
        return found


def trained(model, rows=slice(None), share=1.0, run=None, steps=STEPS, **named):
    """Readings of training on some rows of each batch, whose loss counts `share` times."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    kept = Kept()
    with Watch(
        model, optimizer, run=run, sinks=[kept], budget=1.0, clock=lambda: 0.0, **named
    ) as watch:
        for step in range(steps):
            optimizer.zero_grad()
            loss = share * model(batch(step)[rows]).square().sum() / ROWS
            loss.backward()
            optimizer.step()
            watch.step(loss)
    skipped = [s for look in kept.looks for s in look.skipped]
    return kept.values(), skipped


def split(sizes, rank):
    """The rows of one process, of as many as each has."""
    first = sum(sizes[:rank])
    return slice(first, first + sizes[rank])


def ddp(rank, sizes, **named):
    model = DistributedDataParallel(small())
    return trained(model, split(sizes, rank), len(sizes), **named)


def sharded(model, mesh=None):
    from torch.distributed.fsdp import fully_shard

    fully_shard(model.attend, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def fsdp(rank, sizes, **named):
    return trained(sharded(small()), split(sizes, rank), len(sizes), **named)


def beside(rank, sizes):
    """Weights of the second layer are sharded, those of all others are copies."""
    from torch.distributed.fsdp import fully_shard

    model = small()
    fully_shard(model.up)
    for p in model.parameters():
        if not hasattr(p, "placements"):
            p.register_hook(lambda g: _mean(g))
    return trained(model, split(sizes, rank), len(sizes))


def _mean(gradient):
    whole = gradient.clone()
    torch.distributed.all_reduce(whole)
    return whole / torch.distributed.get_world_size()


def parallel(model, mesh):
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan = {f"attend.{name}": ColwiseParallel() for name in "qkv"}
    plan |= {"up": ColwiseParallel(), "attend.o": RowwiseParallel(), "down": RowwiseParallel()}
    return parallelize_module(model, mesh, plan)


def tp(rank, count):
    from torch.distributed.device_mesh import init_device_mesh

    return trained(parallel(small(), init_device_mesh("cpu", (count,))))


def both(rank, sizes):
    """Two by two: batches over the first dimension, tensor parallelism over the second."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = sharded(parallel(small(), mesh["tp"]), mesh["dp"])
    return trained(model, split(sizes, rank // 2), 2)
