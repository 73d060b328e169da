"""What the table of `trainability.py` says, with intervals."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import roc_auc_score

from benchmarks._truth import FITS

TABLE = Path(__file__).with_name("trainability.csv")
OTHERS = Path(__file__).with_name("trainability_others.csv")
BINS = 10
DRAWS = 1000
Row = dict[str, Any]


def report(rows: Sequence[Row]) -> None:
    """Print it all, and JSON on the last line."""
    fits = np.array([r["score"] >= FITS for r in rows])
    chance = np.array([r["probability"] for r in rows])
    alarm = np.array([any(f[1] == "error" for f in r["findings"]) for r in rows])
    ratio = np.array([r["ratio"] for r in rows])
    treated = [r["cures"] for r in rows if "cures" in r]
    first = np.array([c[0][1] >= FITS if c else False for c in treated])
    any_of = np.array([any(s >= FITS for _, s in c) for c in treated])
    says = {
        "networks": len(rows),
        "fit": int(fits.sum()),
        "AUC": drawn(lambda i: float(roc_auc_score(fits[i], chance[i])), len(rows)),
        "AUC of the last participation ratio": drawn(
            lambda i: float(roc_auc_score(fits[i], ratio[i])), len(rows)
        ),
        "calibration error": drawn(lambda i: calibration(fits[i], chance[i]), len(rows)),
        "false alarms": share(alarm[fits]),
        "failures with an error": share(alarm[~fits]),
        "cured by the first remedy": share(first),
        "cured by one of three": share(any_of),
    }
    for name, value in says.items():
        print(f"{name}: {value}")
    for factor in ("family", "data", "activation", "norm", "optimizer"):
        print(f"\n{factor}: networks, fit, AUC, false alarms, failures cured by one of three")
        for value in sorted({r[factor] for r in rows}):
            print(f"  {value}: {_part([r for r in rows if r[factor] == value])}")
    print(json.dumps(says))


def report_others(rows: Sequence[Row]) -> None:
    """Of the second generator, none of whose families here was fitted to."""
    fits = np.array([r["score"] >= FITS for r in rows])
    chance = np.array([r["probability"] for r in rows])
    auc = drawn(lambda i: float(roc_auc_score(fits[i], chance[i])), len(rows))
    error = drawn(lambda i: calibration(fits[i], chance[i]), len(rows))
    print(f"second generator: {len(rows)} networks, {fits.sum()} fit, AUC {auc}, "
          f"calibration error {error}, fit below one half {((chance < FITS) & fits).sum()}, "
          f"not above {((chance >= FITS) & ~fits).sum()}")  # fmt: skip
    for factor in ("family", "data", "fault", "optimizer"):
        for value in sorted({r[factor] for r in rows}):
            on = np.array([r[factor] == value for r in rows])
            f, p = fits[on], chance[on]
            auc = f"{roc_auc_score(f, p):.3f}" if 0 < f.sum() < len(f) else "–"
            gap = calibration(f, p)
            print(f"  {factor} {value}: {len(f)}, {f.sum()} fit, AUC {auc}, error {gap:.3f}")


def _part(rows: Sequence[Row]) -> str:
    fits = np.array([r["score"] >= FITS for r in rows])
    chance = np.array([r["probability"] for r in rows])
    alarm = np.array([any(f[1] == "error" for f in r["findings"]) for r in rows])
    cured = [any(s >= FITS for _, s in r["cures"]) for r in rows if "cures" in r]
    auc = f"{roc_auc_score(fits, chance):.3f}" if 0 < fits.sum() < len(fits) else "–"
    return (
        f"{len(rows)}, {fits.mean():.0%}, {auc}, {int(alarm[fits].sum())} of {int(fits.sum())}, "
        f"{sum(cured)} of {len(cured)}"
    )


def calibration(fits: np.ndarray, chance: np.ndarray) -> float:
    """Expected calibration error: mean gap between probability and share, in ten equal bins."""
    at = np.minimum((BINS * chance).astype(int), BINS - 1)
    gaps = [(at == b).mean() * abs(fits[at == b].mean() - chance[at == b].mean())
            for b in range(BINS) if (at == b).any()]  # fmt: skip
    return float(sum(gaps))


def drawn(of: Callable[[np.ndarray], float], n: int) -> tuple[float, float, float]:
    """A number with its 95 % interval over resampled networks."""
    g = np.random.default_rng(0)
    values = [of(g.integers(n, size=n)) for _ in range(DRAWS)]
    low, high = np.quantile(values, [0.025, 0.975])
    return round(of(np.arange(n)), 4), round(float(low), 4), round(float(high), 4)


def share(hits: np.ndarray) -> tuple[float, float, float]:
    """A share with its 95 % interval (Clopper & Pearson 1934)."""
    k, n = int(hits.sum()), len(hits)
    if not n:
        return 0.0, 0.0, 1.0
    ends = stats.binomtest(k, n).proportion_ci(0.95)
    return round(k / n, 4), round(float(ends.low), 4), round(float(ends.high), 4)
