import argparse
import math
import torch
from torch import nn, autograd


def get_args():
    p = argparse.ArgumentParser(description="Poisson equation on the unit square")
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--depth", type=int, default=2)
    p.add_argument("--iters", type=int, default=500)
    p.add_argument("--lr", type=float, default=1e-2)
    p.add_argument("--bc-weight", type=float, default=50.0)
    return p.parse_args()


def mlp(width, depth):
    layers = [nn.Linear(2, width)]
    for _ in range(depth - 1):
        layers += [nn.ReLU(), nn.Linear(width, width)]
    layers += [nn.ReLU(), nn.Linear(width, 1)]
    return nn.Sequential(*layers)


def laplacian(u, xy):
    g = autograd.grad(u.sum(), xy, create_graph=True)[0]
    lap = 0
    for d in range(2):
        lap = lap + autograd.grad(g[:, d].sum(), xy, create_graph=True)[0][:, d:d + 1]
    return lap


def exact(xy):
    return torch.sin(math.pi * xy[:, :1]) * torch.sin(math.pi * xy[:, 1:])


def boundary(n):
    s = torch.rand(n, 1)
    z, o = torch.zeros(n, 1), torch.ones(n, 1)
    return torch.cat([torch.cat([s, z], 1), torch.cat([s, o], 1), torch.cat([z, s], 1), torch.cat([o, s], 1)])


def main():
    args = get_args()
    torch.manual_seed(0)
    net = mlp(args.width, args.depth)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=250, gamma=0.5)
    for i in range(args.iters):
        xy = torch.rand(64, 2, requires_grad=True)
        f = -2 * math.pi ** 2 * exact(xy)
        pde = (laplacian(net(xy), xy) - f.detach()).pow(2).mean()
        bc = net(boundary(20)).pow(2).mean()
        loss = pde + args.bc_weight * bc
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if i % 100 == 0:
            print(f"iter {i}: pde {pde.item():.4f} bc {bc.item():.5f}")
    grid = torch.stack(torch.meshgrid(torch.linspace(0, 1, 30), torch.linspace(0, 1, 30), indexing="ij"), -1).view(-1, 2)
    with torch.no_grad():
        rel = (net(grid) - exact(grid)).norm() / exact(grid).norm()
    print(f"final relative_error {rel.item():.5f}")


if __name__ == "__main__":
    main()
