"""What a profile costs in forward and backward passes of the same batch, and when it first speaks.

python -m benchmarks.profiles                       # five networks, as a table
python -m benchmarks.profiles --only resnet-20      # one of them, with its views and conditioning
python -m benchmarks.profiles | tail -1             # one line of JSON, for scripts

Processor time of the default views with targets and a loss, in turns with forward and backward
passes of the same batch in the same process, on one thread; the least of several rounds each.
"First findings" is what `diagnose` tells of before it goes on: its quick look.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._timing import best_of, environment
from sigmascope import diagnosis, survey, theory
from sigmascope.core import quantities
from sigmascope.models.networks import mlp, resnet

Task = tuple[nn.Module, Tensor, Tensor, Callable[..., Tensor]]


def _labelled(model: nn.Module, *shape: int) -> Task:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(*shape, generator=g)
    return model, x, torch.randint(0, 10, (len(x),), generator=g), F.cross_entropy


def _of_tokens(model: nn.Module, vocabulary: int, samples: int, tokens: int) -> Task:
    x = torch.randint(vocabulary, (samples, tokens), generator=torch.Generator().manual_seed(1))
    loss = lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten())
    return model.eval(), x, x.roll(-1, 1), loss


def _gpt() -> Task:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=5000,
        n_embd=384,
        n_layer=12,
        n_head=6,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    return _of_tokens(transformers.GPT2LMHeadModel(config), 5000, 4, 128)


def _bert() -> Task:
    import transformers

    torch.manual_seed(0)
    return _of_tokens(transformers.BertForMaskedLM(transformers.BertConfig()), 30522, 8, 64)


G = torch.Generator().manual_seed(0)
NETWORKS: dict[str, tuple[Callable[[], Task], int, str]] = {  # made by, rounds, aim
    "mlp-128": (
        lambda: _labelled(mlp(inputs=64, outputs=10, depth=128, width=64, generator=G), 128, 64),
        5,
        "40",
    ),
    "mlp-4": (
        lambda: _labelled(mlp(inputs=784, outputs=10, depth=4, width=256, generator=G), 256, 784),
        8,
        "40",
    ),
    "resnet-20": (
        lambda: _labelled(
            resnet(inputs=(3, 32, 32), outputs=10, depth=20, width=16, generator=G), 64, 3, 32, 32
        ),
        3,
        "12",
    ),
    "gpt-12": (_gpt, 2, "14"),
    "bert-base": (_bert, 1, "12"),
}


def contenders(task: Task, *, whole: bool) -> dict[str, Callable[[], Any]]:
    """What takes turns; with the views by themselves if `whole`."""
    model, x, y, loss = task

    def both_ways() -> None:
        """One forward and backward pass."""
        model.zero_grad()
        out = model(x)
        loss(getattr(out, "logits", out), y).backward()

    def of(*views: quantities.View) -> None:
        """A profile of some views."""
        model.zero_grad()
        survey.profile(model, x, targets=y, loss=loss, views=views)

    found: dict[str, Callable[[], Any]] = {
        "forward and backward": both_ways,
        "profile": lambda: of(*quantities.ALL),
        "first findings": lambda: diagnosis.diagnose(model, (x, y), loss=loss, quick=True),
    }
    if whole:
        found |= {f"  {view} alone": lambda view=view: of(view) for view in quantities.ALL}
        sizes = [p.numel() for p in model.parameters()]
        if max(sizes) < 2**16 and len(sizes) < 100:  # of others it takes minutes
            found["conditioning of all layers"] = lambda: theory.landscape.landscape(
                model, x, targets=y, loss=loss
            )
    return found


def main() -> None:
    """Measure, tell."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--only", choices=NETWORKS)
    only = ask.parse_args().only
    told: dict[str, dict[str, float]] = {}
    for name in (only,) if only else NETWORKS:
        make, rounds, aim = NETWORKS[name]
        least = best_of(contenders(make(), whole=only is not None), repeats=rounds)
        one = least["forward and backward"]
        told[name] = {what: seconds / one for what, seconds in least.items()} | {"seconds": one}
        print(f"{name}: a pass {one:.4f} s; profile {told[name]['profile']:.1f} passes (aim {aim})")
        for what, passes in told[name].items():
            if what not in ("forward and backward", "profile", "seconds"):
                print(f"  {what:<28} {passes:6.1f} passes")
    print(json.dumps({**environment(), "passes": told}))


if __name__ == "__main__":
    main()
