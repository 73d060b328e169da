"""What a profile, and the conditioning, of a CIFAR-size ResNet cost in forward and backward passes.

python -m benchmarks.profiles               # a table, for people
python -m benchmarks.profiles | tail -1     # one line of JSON, for scripts

ResNet-20 (He et al. 2016), 64 images of 32 x 32, all four views, timed in turns with a forward and
backward pass of the same batch in the same process.
"""

import json

import torch
from torch.nn import functional as F

from benchmarks._timing import best_of, environment
from sigmascope import survey, theory
from sigmascope.core import quantities
from sigmascope.models.networks import resnet

if __name__ == "__main__":
    g = torch.Generator().manual_seed(0)
    model = resnet(inputs=(3, 32, 32), outputs=10, depth=20, width=16, generator=g)
    x = torch.randn(64, 3, 32, 32, generator=g)
    y = torch.randint(0, 10, (64,), generator=g)

    def both_ways() -> None:
        """One forward and backward pass."""
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()

    def of(*views: quantities.View) -> None:
        """A profile of some views."""
        survey.profile(model, x, targets=y, loss=F.cross_entropy, views=views)

    contenders = {
        "forward and backward": both_ways,
        "profile, all views": lambda: of(*quantities.ALL),
    }
    contenders |= {f"  {view} alone": lambda view=view: of(view) for view in quantities.ALL}
    contenders["conditioning of all layers"] = lambda: theory.landscape.landscape(
        model, x, targets=y, loss=F.cross_entropy
    )
    least = best_of(contenders, repeats=3)
    passes = {k: v / least["forward and backward"] for k, v in least.items()}
    for name, seconds in least.items():
        print(f"{name:<26} {seconds:.3f} s  {passes[name]:6.1f} passes")
    print(json.dumps({**environment(), "seconds": least, "passes": passes}))
