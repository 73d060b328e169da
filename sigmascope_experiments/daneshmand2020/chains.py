"""Figures 3a, 8 and 9: averages over the layers of normalised chains of random layers."""

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from sigmascope.core.records import Estimate
from sigmascope.theory.random_chains import BatchNormChain, Weights
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, generator_of, untested

FULL = {"widths": [8, 16, 32, 64, 128, 256], "gammas": [0.05, 0.1, 0.5, 1, "inf"]}
QUICK = {"widths": [4, 8, 16], "gammas": [0.5, "inf"]}
# width, gamma: mean soft rank, alpha, E|M|^2, with standard errors, of an independent simulation.
# Width 256 needs 5000 layers before the first average: after 120 the soft rank is 2 % too high.
KNOWN = {
    (8, "inf"): ((2.8473, 0.0021), (0.9096, 1e-4), (28.63, 0.02)),
    (16, "inf"): ((4.5184, 0.0036), (0.8830, 1e-4), (77.52, 0.05)),
    (16, 0.5): ((4.5132, 0.0036), (0.8830, 1e-4), (77.65, 0.05)),
    (32, 0.5): ((7.0915, 0.0077), (0.8622, 2e-4), (210.5, 0.2)),
    (64, "inf"): ((11.01, 0.02), (0.8454, 3e-4), (573.7, 0.9)),
    (128, 1): ((16.78, 0.03), (0.8329, 3e-4), (1574.5, 3.1)),
    (256, "inf"): ((25.185, 0.035), (0.8241, 8e-4), (4354.9, 3.6)),
}
# The soft rank of Gaussian weights, likewise.
GAUSSIAN = {
    (8, 0.05): (3.121, 0.010),
    (8, 0.5): (2.8152, 0.0024),
    (8, 1): (2.7888, 0.0017),
    (8, "inf"): (2.7893, 0.0022),
    (16, 0.05): (4.856, 0.017),
    (16, 0.5): (4.4714, 0.0054),
    (16, "inf"): (4.4526, 0.0050),
    (32, 0.05): (7.440, 0.029),
    (32, 0.5): (7.042, 0.012),
    (32, "inf"): (7.054, 0.009),
}
LAWS: tuple[Weights, ...] = ("uniform", "gaussian")
QUANTITIES = ("soft_rank", "regularity", "frobenius_sq")


def tasks(config: Config) -> list[Task]:
    """A row for each width, gamma and piece of the layers; pieces are independent.

    Weights are uniform; at the widths in `gaussian` there are rows for Gaussian ones besides, for
    narrow chains tell the two laws apart.
    """
    each = config["layers"] // config["pieces"]
    places = [(d, {}) for d in config["widths"]]
    places += [(d, {"weights": "gaussian"}) for d in config.get("gaussian", ())]
    return [
        {"width": d, "gamma": gamma, "piece": piece, "layers": each, **law}
        for d, law in places
        for gamma in config["gammas"]
        for piece in range(config["pieces"])
    ]


def row(task: Task, _: Path | None) -> Row:
    """Averages over so many layers, shared by as many chains as fill the machine."""
    width, gamma = task["width"], math.inf if task["gamma"] == "inf" else task["gamma"]
    chains = max(1, min(64, 512 // width, task["layers"] // 50))
    law: Weights = task.get("weights", "uniform")
    chain = BatchNormChain(width, gamma, weights=law, chains=chains, generator=generator_of(task))
    found = chain.run(task["layers"] // chains)
    shown = {name: _plain(getattr(found, name)) for name in (*QUANTITIES, "participation_ratio")}
    return {**shown, "chains": chains, "burn_in": found.burn_in}


def _plain(e: Estimate) -> list[float]:
    """Value and standard error."""
    return [e.value, (e.high - e.low) / 4]


def joined(
    rows: list[Row], quantity: str, law: Weights = "uniform"
) -> dict[tuple[int, Any], tuple[float, float]]:
    """Mean over the pieces, and its standard error, by width and gamma, of weights of one law."""
    groups: dict[tuple[int, Any], list[list[float]]] = {}
    for r in rows:
        if r["task"].get("weights", "uniform") != law:
            continue
        groups.setdefault((r["task"]["width"], r["task"]["gamma"]), []).append(r[quantity])
    return {
        place: (
            sum(v for v, _ in pieces) / len(pieces),
            math.sqrt(sum(e * e for _, e in pieces)) / len(pieces),
        )
        for place, pieces in groups.items()
    }


def _plot(rows: list[Row], canvas: Any, quantity: str, label: str, power: float | None) -> None:
    axes = canvas.add_subplot()
    found, normal = joined(rows, quantity), joined(rows, quantity, "gaussian")
    for place, gamma in enumerate(dict.fromkeys(g for _, g in found)):
        name = "no skip connection" if gamma == "inf" else f"gamma {gamma}"
        for law, style, means in (("uniform", "-", found), ("Gaussian", "o:", normal)):
            widths = sorted(d for d, g in means if g == gamma)
            values = [means[d, gamma] for d in widths]
            if values:
                axes.errorbar(
                    widths,
                    [v for v, _ in values],
                    [2 * e for _, e in values],
                    fmt=style,
                    color=f"C{place}",
                    label=f"{name}, {law} weights" if normal else name,
                )
    if power is not None:
        widths = sorted({d for d, _ in found})
        axes.plot(widths, [d**power for d in widths], "k--", label=f"width^{power:g}")
        axes.set_yscale("log")
    axes.set_xscale("log", base=2)
    axes.set(xlabel="width", ylabel=label)
    axes.legend(fontsize="small")


def _agreement(rows: list[Row], quantity: str, law: Weights = "uniform") -> Iterator[Claim]:
    means = joined(rows, quantity, law)
    index = QUANTITIES.index(quantity)
    known = GAUSSIAN if law == "gaussian" else {at: told[index] for at, told in KNOWN.items()}
    far = {
        at: (means[at][0] - value) / math.hypot(means[at][1], error)
        for at, (value, error) in known.items()
        if at in means
    }
    says = "agrees with an independent simulation within 3.5 standard errors"
    says = f"of Gaussian weights too it {says}" if law == "gaussian" else says
    if not far:
        yield untested(says, "it has none of these widths and gammas")
        return
    largest = max(far.values(), key=abs)
    found = f"{len(far)} places, the largest distance {largest:.2f}"
    yield Claim(says, found, abs(largest) <= 3.5)


def rank_claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """Figure 3a: the mean soft rank is of the order of the root of the width."""
    yield from _agreement(rows, "soft_rank")
    yield from _agreement(rows, "soft_rank", "gaussian")
    shares = {
        law: {
            at: (v / math.sqrt(at[0]), e / math.sqrt(at[0]))
            for at, (v, e) in joined(rows, "soft_rank", law).items()
        }
        for law in LAWS
    }
    least = min(v for (d, _), (v, _) in shares["uniform"].items() if d >= 8)
    yield Claim(
        "of uniform weights the mean soft rank exceeds the root of the width from width 8 on, for "
        "every gamma",
        f"the least ratio to it is {least:.3f}",
        least > 1,
    )
    narrow = [s for (d, g), s in shares["gaussian"].items() if d == 8 and (g == "inf" or g >= 0.5)]
    yield Claim(
        "of Gaussian weights it is below the root at width 8 and gamma from 0.5 on, on average by "
        "more than two standard errors",
        f"ratios to it of {', '.join(f'{v:.4f} ({e:.4f})' for v, e in narrow) or 'none'}",
        bool(narrow)
        and all(v < 1 for v, _ in narrow)
        and sum(1 - v for v, _ in narrow) > 2 * math.hypot(*(e for _, e in narrow)),
    )
    wide = [v for (d, _), (v, _) in shares["gaussian"].items() if d >= 16]
    yield Claim(
        "and above it from width 16 on, for every gamma",
        f"the least ratio to it is {min(wide, default=math.nan):.3f}",
        bool(wide) and min(wide) > 1,
    )
    margin = min(
        v / (0.25 * math.sqrt(1 - joined(rows, "regularity", law)[at][0]))
        for law in LAWS
        for at, (v, _) in shares[law].items()
    )
    yield Claim(
        "of both laws it exceeds the bound of Theorem 14",
        f"the least ratio to it is {margin:.2f}",
        margin >= 1,
    )


def alpha_claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """Figure 8: the regularity is below 0.9 from width 16 on, and falls."""
    yield from _agreement(rows, "regularity")
    found = joined(rows, "regularity")
    wide = {place: v for place, (v, _) in found.items() if place[0] >= 16}
    if wide:
        worst = max(wide.values())
        yield Claim("alpha is below 0.9 from width 16 on", f"at most {worst:.4f}", worst < 0.9)
    for gamma in dict.fromkeys(g for _, g in found):
        values = [found[d, gamma][0] for d in sorted(d for d, g in found if g == gamma)]
        falls = all(a > b for a, b in pairwise(values))
        shown = ", ".join(f"{v:.3f}" for v in values)
        yield Claim(f"alpha falls with the width at gamma {gamma}", shown, falls)


def size_claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """Figure 9: E|M|^2 grows like width^1.5."""
    yield from _agreement(rows, "frobenius_sq")
    ratios = [v / d**1.5 for (d, _), (v, _) in joined(rows, "frobenius_sq").items()]
    yield Claim(
        "E|M|^2 is between 1 and 1.4 times width^1.5",
        f"{min(ratios):.3f} to {max(ratios):.3f}",
        min(ratios) >= 1.0 and max(ratios) <= 1.4,
    )


def _sizes(layers: int, pieces: int) -> dict[str, Any]:
    return {**FULL, "layers": layers, "pieces": pieces}


def plot_rank(rows: list[Row], canvas: Any) -> None:
    """Mean soft rank against the width."""
    _plot(rows, canvas, "soft_rank", "mean soft rank (1/2)", 0.5)


def plot_alpha(rows: list[Row], canvas: Any) -> None:
    """Regularity against the width."""
    _plot(rows, canvas, "regularity", "alpha", None)


def plot_size(rows: list[Row], canvas: Any) -> None:
    """E|M|^2 against the width."""
    _plot(rows, canvas, "frobenius_sq", "E |M|^2", 1.5)


SMALL = {**QUICK, "layers": 20_000, "pieces": 2}
FIG3A = Figure(
    "daneshmand2020/fig3a",
    "Mean soft rank over 10^6 layers with batch normalisation, by width and gamma: uniform weights "
    "at widths 8 to 256, Gaussian ones at 8 to 32.",
    35,
    {**_sizes(1_000_000, 10), "gaussian": [8, 16, 32]},
    {**SMALL, "gaussian": [8, 16]},
    tasks,
    row,
    plot_rank,
    rank_claims,
    "10^6 layers, widths 8 to 256: the same here; gammas below infinity are chosen here.",
)
FIG8 = Figure(
    "daneshmand2020/fig8",
    "Regularity alpha of the law that the chain reaches with uniform weights, over 10^5 layers, by "
    "width.",
    4,
    _sizes(100_000, 2),
    SMALL,
    tasks,
    row,
    plot_alpha,
    alpha_claims,
    "10^5 layers: the same here, at the widths of Figure 3a.",
)
FIG9 = Figure(
    "daneshmand2020/fig9",
    "E|M|^2 over 10^5 layers with uniform weights grows like width^1.5.",
    4,
    _sizes(100_000, 2),
    SMALL,
    tasks,
    row,
    plot_size,
    size_claims,
    "10^5 layers: the same here, at the widths of Figure 3a.",
)
