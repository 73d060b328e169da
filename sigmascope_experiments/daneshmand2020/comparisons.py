"""What figures that train networks have in common: kinds of networks, each at its best rate."""

from collections.abc import Callable, Iterator
from typing import Any

from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, untested
from sigmascope_experiments.seeds import at_least
from sigmascope_experiments.training import trained

CHANCE = 0.15  # accuracy that ten classes give without learning, and some luck


def tasks(config: Config) -> list[Task]:
    """A row for each kind of network, learning rate and seed."""
    shared = {k: config[k] for k in ("data", "samples", "epochs", "batch", "test") if k in config}
    return [
        {"kind": kind, **shared, **options, "rate": rate, "seed": seed}
        for kind, options in config["kinds"].items()
        for rate in config["rates"]
        for seed in range(config["seeds"])
    ]


def best(rows: list[Row], kind: str, place: str = "accuracy") -> tuple[float, float]:
    """The learning rate of the best mean accuracy after training, and that mean."""
    rates = sorted({r["task"]["rate"] for r in rows})
    means = {rate: mean_of(rows, kind, lambda r: r["final"][place], rate=rate) for rate in rates}
    rate = max(means, key=lambda k: means[k])
    return rate, means[rate]


def mean_of(
    rows: list[Row], kind: str, value: Callable[[Row], float], *, rate: float | None = None
) -> float:
    """Mean of a value over the seeds of a kind of network (and all rates, if none is named)."""
    mine = [r for r in rows if r["task"]["kind"] == kind and rate in (None, r["task"]["rate"])]
    return sum(value(r) for r in mine) / len(mine)


def kinds(rows: list[Row]) -> list[str]:
    """In the order in which they were asked for."""
    return list(dict.fromkeys(r["task"]["kind"] for r in rows))


def plot_curves(
    rows: list[Row], canvas: Any, *, right: str = "loss", followed: str | None = None
) -> None:
    """Accuracy over epochs at the best rate; beside it the loss, or a reading.

    Args:
        rows: All of them.
        canvas: To draw on.
        right: What is drawn beside it.
        followed: The reading that takes its place where rows have followed it.
    """
    axes = canvas.subplots(1, 2)
    if followed and any(followed in curve for r in rows for curve in r["curves"][:1]):
        right = followed
    for kind in kinds(rows):
        rate, _ = best(rows, kind)
        mine = [r for r in rows if (r["task"]["kind"], r["task"]["rate"]) == (kind, rate)]
        for place, name in enumerate(("accuracy", right)):
            shortest = min(len(r["curves"]) for r in mine)
            steps = range(shortest)
            line = [sum(r["curves"][i].get(name, 0.0) for r in mine) / len(mine) for i in steps]
            axes[place].plot(range(1, shortest + 1), line, label=f"{kind} (rate {rate:g})")
            axes[place].set(xlabel="epoch", ylabel=name)
    axes[0].legend(fontsize=7)


def plot_depths(rows: list[Row], canvas: Any) -> None:
    """What the network starts with, and its accuracy after training, by depth; BN apart."""
    axes = canvas.subplots(1, 2)
    for end in (", BN", ""):
        names = [k for k in kinds(rows) if k.endswith("BN") == bool(end)]
        depths = [k.removesuffix(end) for k in names]
        ranks = [mean_of(rows, k, lambda r: r["start"]["matrix rank"]) for k in names]
        axes[0].plot(depths, ranks, marker="o", label=end.strip(", ") or "no normalisation")
        axes[1].plot(depths, [best(rows, k)[1] for k in names], marker="o")
    axes[0].set(ylabel="rank at the start")
    axes[0].legend()
    axes[1].set(ylabel="accuracy after training")
    for each in axes:
        each.tick_params(axis="x", rotation=45)


def ordered(rows: list[Row], better: str, worse: str) -> Claim:
    """That one kind trains at least as well as another, each at its best rate, seed by seed."""
    says = f"{better} trains at least as well as {worse}"
    absent = [kind for kind in (better, worse) if kind not in kinds(rows)]
    if absent:
        return untested(says, f"{absent[0]} is not trained at this size")
    rates = [best(rows, kind)[0] for kind in (better, worse)]
    first, second = (
        [
            r["final"]["accuracy"]
            for r in sorted(rows, key=lambda r: r["task"]["seed"])
            if (r["task"]["kind"], r["task"]["rate"]) == (kind, rate)
        ]
        for kind, rate in zip((better, worse), rates, strict=True)
    )
    return at_least(says, first, second, f" (rates {rates[0]:g} and {rates[1]:g})")


def compared(
    rows: list[Row],
    _: Config,
    *,
    order: list[tuple[str, str]] | None = None,
    stuck: list[str] | None = None,
    collapsed: list[str] | None = None,
    pretrained: list[str] | None = None,
) -> Iterator[Claim]:
    """What kinds of networks show against one another.

    Args:
        rows: All of them.
        order: Pairs of which the first trains at least as well as the second.
        stuck: Those that stay at chance.
        collapsed: Those that start from collapsed representations.
        pretrained: Those that start from a raised participation ratio.
    """
    yield from (ordered(rows, better, worse) for better, worse in order or [])
    for kind in stuck or []:
        rate, a = best(rows, kind)
        yield Claim(f"{kind} does not train", f"{a:.3f} at best (rate {rate:g})", a <= CHANCE)
    for kind in collapsed or []:
        ratio = mean_of(rows, kind, lambda r: r["start"]["participation ratio"])
        says = f"{kind} starts from collapsed representations"
        yield Claim(says, f"mean participation ratio {ratio:.4f}", ratio < 1.1)
    for kind in pretrained or []:
        ratio = mean_of(rows, kind, lambda r: r["start"]["participation ratio"])
        yield Claim(f"{kind} starts above 5", f"mean participation ratio {ratio:.1f}", ratio > 5)


def figure(
    name: str,
    says: str,
    minutes: float,
    usual: Config,
    quick: Config,
    claims: Any,
    plot: Any,
    stated: str,
    full: Config | None = None,
) -> Figure:
    """A training figure."""
    path = f"daneshmand2020/{name}"
    sizes = (usual, quick, tasks, trained, plot, claims, stated, full)
    return Figure(path, says, minutes, *sizes, on_device=True)


def net(query: str, treatment: str = "none", **more: Any) -> dict[str, Any]:
    """A kind of network."""
    return {"network": query, "treatment": treatment, **more}


def sizes(
    data: str, samples: int, epochs: int, batch: int, seeds: int, rates: list[float]
) -> dict[str, Any]:
    """How much to train."""
    return {
        "data": data,
        "samples": samples,
        "epochs": epochs,
        "batch": batch,
        "seeds": seeds,
        "rates": rates,
    }


IMAGES = {"fashion-mnist": 60_000, "cifar10": 50_000}  # to train on; 10 000 to test on


def all_of(data: str, epochs: int, batch: int, seeds: int, rates: list[float]) -> dict[str, Any]:
    """How much to train on all images of a data set, and to test on its test split."""
    return {**sizes(data, IMAGES[data], epochs, batch, seeds, rates), "test": 10_000}
