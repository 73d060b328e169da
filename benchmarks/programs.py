"""What is said of training programs that people write: faulty, patched and healthy ones.

OMP_NUM_THREADS=1 python -m benchmarks.programs             # all, with the shares at the end
OMP_NUM_THREADS=1 python -m benchmarks.programs --own       # healthy ones of this project alone
OMP_NUM_THREADS=1 python -m benchmarks.programs clip_small  # some

The faulty ones, with their patches, and nine healthy ones lie beside the data (`programs/README.md`
in `$SIGMASCOPE_DATA`); more healthy ones are in `_healthy.py`. A cause stands first where the rule
of the first finding is one that a reader of its words would know the patch from: `CAUSES`, judged
by hand.
"""

import argparse
import importlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as ss

CAUSES: dict[str, set[str]] = {
    "lm_softmax_before_ce": {"double-softmax"},
    "unet_dice_sign": {"reversed-loss"},
    "rounded_bce": {"indifferent-loss"},
    "vae_kl_sum": {"outweighed-error"},
    "ignore_index_zero": {"omitted-class"},
    "transformer_batch_first": {"mixed-samples"},
    "log_softmax_dim0": {"mixed-samples", "unsuited-closing"},
    "mask_inverted": {"lost-inputs"},
    "layers_in_list": {"untrained-weights", "unregistered-weights"},
    "zero_embeddings": {"alike-inputs", "lost-inputs", "zero-weights"},
    "normalised_wrongly": {"unscaled-inputs", "offset-inputs", "alike-inputs"},
    "keep_prob": {"heavy-dropout"},
    "labels_misaligned": {"unrelated-targets"},
    "clip_small": {"strong-clipping"},
}


def told(make: Callable[[], Any], budget: float | None) -> dict[str, Any]:
    """What a user is told of a program, in order."""
    begin = time.process_time()
    try:
        found = ss.diagnose(make(), budget=budget)
    except Exception as error:  # noqa: BLE001 (a refusal is told too, and counts as an error)
        words = [("refused", "error", "", f"{type(error).__name__}: {error}")]
        return {"findings": words, "probability": None, "seconds": time.process_time() - begin}
    own = found.profile.series("probability at your settings")
    chance = own[0] if own else ss.probability(found.profile)
    return {
        "findings": [(f.name, f.severity, f.follows, f.says) for f in found.findings],
        "probability": None if chance is None else chance.estimate.value,
        "seconds": time.process_time() - begin,
    }


def trained(make: Callable[[], Any]) -> tuple[float, float]:
    """Mean loss over the first and over the last epoch of a program that is trained as it says."""
    whole = ss.diagnosis.programs.program_of(make())
    recipe = whole.recipe()
    assert recipe is not None
    assert callable(whole.loss)
    data: Any = whole.data
    if not isinstance(data, DataLoader):
        inputs, targets = data
        parts = inputs if isinstance(inputs, tuple | dict) else (inputs,)
        keys = [*parts] if isinstance(parts, dict) else None
        tensors = [*parts.values()] if isinstance(parts, dict) else [*parts]
        rows = TensorDataset(*tensors, targets)
        size = whole.batch_size or 32
        data = DataLoader(rows, batch_size=size, shuffle=size < len(rows),
                          generator=torch.Generator().manual_seed(0))  # fmt: skip
    else:
        keys = None
    model, optimizer = whole.model.train(), recipe.make(whole.model)
    means = []
    for _ in range(int(whole.epochs or 1)):
        losses = []
        for *x, y in data:

            def again(x: list[Any] = x, y: Any = y) -> torch.Tensor:
                optimizer.zero_grad()
                value = whole.loss(
                    model(*x) if keys is None else model(**dict(zip(keys, x, strict=True))), y
                )
                value.backward()
                return value

            losses.append(float(optimizer.step(again)))
        means.append(sum(losses) / len(losses))
    return means[0], means[-1]


def programs(own: bool) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Kind (`faulty`, `patched`, `healthy`), name, and what makes the program."""
    if not own:
        beside = Path(__file__).resolve().parents[2] / "shared" / "data"
        sys.path.insert(0, str(Path(os.environ.get("SIGMASCOPE_DATA", beside)) / "programs"))
        faulty: Any = importlib.import_module("faulty")
        healthy: Any = importlib.import_module("healthy")
        for name in faulty.CASES:
            for kind in ("faulty", "patched"):
                yield kind, name, getattr(faulty, f"{name}_{kind}")
        for name in healthy.H:
            yield "healthy", name, getattr(healthy, f"{name}_fresh")
            yield "healthy", f"{name} trained", getattr(healthy, f"{name}_trained")
    from benchmarks._healthy import PROGRAMS

    for name, make in PROGRAMS.items():
        yield "own", name, make


def main() -> int:
    """Print each program, and the shares."""
    ask = argparse.ArgumentParser()
    ask.add_argument("names", nargs="*")
    ask.add_argument("--own", action="store_true")
    ask.add_argument("--says", action="store_true", help="print the sentences too")
    ask.add_argument("--train", action="store_true", help="train them, and print the losses")
    ask.add_argument("--kinds", nargs="*")
    ask.add_argument("--budget", type=float, default=120.0)
    given = ask.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[tuple[str, str, dict[str, Any]]] = []
    for kind, name, make in programs(given.own):
        if given.names and not any(word in name for word in given.names):
            continue
        if given.kinds and kind not in given.kinds:
            continue
        if given.train:
            print(f"{kind:8s} {name:26s} {'{:.4g} to {:.4g}'.format(*trained(make))}", flush=True)
            continue
        seen = told(make, given.budget)
        rows.append((kind, name, seen))
        said = " ".join(f"{s[0].upper()}:{n}" for n, s, f, _ in seen["findings"] if not f)
        chance = "–" if seen["probability"] is None else f"{seen['probability']:.2f}"
        mark = ("first" if _first(name, seen) else "NOT") if kind == "faulty" else ""
        print(f"{kind:8s} {name:26s} {mark:5s} p={chance} {said or 'nothing'} "
              f"({seen['seconds']:.0f} s)", flush=True)  # fmt: skip
        for n, s, f, says in seen["findings"] if given.says else ():
            print(f"      {s[0].upper()} {n}{f' <- {f}' if f else ''}: {says[:400]}", flush=True)
    for title, (k, n) in shares(rows).items():
        print(f"{title:40s} {k} of {n}")
    return 0


def _first(name: str, seen: dict[str, Any]) -> bool:
    return bool(seen["findings"]) and seen["findings"][0][0] in CAUSES.get(name, set())


def shares(rows: list[tuple[str, str, dict[str, Any]]]) -> dict[str, tuple[int, int]]:
    """What is counted: how many, of how many."""
    found: dict[str, tuple[int, int]] = {}
    faulty = [_first(name, seen) for kind, name, seen in rows if kind == "faulty"]
    found["faulty: cause first"] = (sum(faulty), len(faulty))
    for kind in ("patched", "healthy", "own"):
        worst = [{f[1] for f in seen["findings"]} for k, _, seen in rows if k == kind]
        found[f"{kind}: an error"] = (sum("error" in w for w in worst), len(worst))
        either = sum(bool(w & {"error", "warning"}) for w in worst)
        found[f"{kind}: a warning or an error"] = (either, len(worst))
    return found


if __name__ == "__main__":
    sys.exit(main())
