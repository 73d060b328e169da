"""What the table of `ranking.py` says."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from benchmarks._truth import ENOUGH

GROUP, DRAWS = 8, 400
WAYS = ("forecast", "probability", "best score", "loss")
Row = dict[str, Any]


def report(rows: Sequence[Row], groups: Mapping[int, Row]) -> None:
    """Print it all, and JSON on the last line."""
    rows = [{**r, "loss": -r["loss left"]} for r in rows]
    says = {"designs": len(rows), **_said(rows), **_halved(groups, rows)}
    for name, value in says.items():
        print(f"{name}: {value}")
    print(json.dumps(says))


def weights(rows: Sequence[Row]) -> list[float]:
    """How often each counts, so that those above 0.9 do in the share that they have of all."""
    good = np.array([r["score"] >= ENOUGH for r in rows])
    known = np.array([r["end"] is not None for r in rows])
    share = good.mean()
    return [
        0.0
        if not k
        else share / (good & known).mean()
        if g
        else (1 - share) / (~good & known).mean()
        for g, k in zip(good, known, strict=True)
    ]


def _said(rows: Sequence[Row]) -> dict[str, Any]:
    ends = [r for r in rows if r["end"] is not None]
    inside = [r["low"] <= r["end"] <= r["high"] for r in ends]
    w = [v for v in weights(rows) if v]
    return {
        "trained to the end": {"designs": len(ends), **_each(lambda s: _mixed(rows, s))},
        "groups of eight": _each(lambda s: _grouped(rows, s)),
        "groups of eight, one data set": _each(lambda s: _grouped(rows, s, by="data")),
        "stopped at 0.9": _each(lambda s: _rho(rows, s, "score")),
        "stopped at 0.9, all above are alike": _each(lambda s: _rho(rows, s, "score", ENOUGH)),
        "a foresight of who reaches 0.9 and of nothing above": round(
            _rho([{**r, "x": min(r["score"], ENOUGH)} for r in rows], "x", "score"), 3
        ),
        "ends inside the interval": round(float(np.average(inside, weights=w)), 3),
    }


def _each(of: Callable[[str], float]) -> dict[str, float]:
    return {way: round(of(way), 3) for way in WAYS}


def _rho(rows: Sequence[Row], says: str, truth: str, most: float = math.inf) -> float:
    pairs = [(r[says], min(r[truth], most)) for r in rows]
    return float(np.asarray(stats.spearmanr(*zip(*pairs, strict=True)))[0])


def _samples(rows: Sequence[Row], size: int | None) -> "list[list[Row]]":
    """Designs of known end, drawn so that those above 0.9 have the share that they have of all."""
    g = np.random.default_rng(0)
    good = [r for r in rows if r["score"] >= ENOUGH and r["end"] is not None]
    bad = [r for r in rows if r["score"] < ENOUGH]
    share = float(np.mean([r["score"] >= ENOUGH for r in rows]))
    count = size or round(min(len(good) / share, len(bad) / (1 - share)))
    found = []
    for _ in range(DRAWS):
        many = int(g.binomial(count, share)) if size else round(count * share)
        chosen = [*g.permutation(len(good))[:many]], [*g.permutation(len(bad))[: count - many]]
        found.append([*(good[i] for i in chosen[0]), *(bad[i] for i in chosen[1])])
    return found


def _mixed(rows: Sequence[Row], says: str) -> float:
    return float(np.mean([_rho(each, says, "end") for each in _samples(rows, None)]))


def _grouped(rows: Sequence[Row], says: str, by: str = "") -> float:
    parts = {r[by] for r in rows} if by else {""}
    each = [
        _rho(group, says, "end")
        for part in sorted(parts)
        for group in _samples([r for r in rows if not by or r[by] == part], GROUP)
    ]
    return float(np.nanmean(each))


def _halved(groups: Mapping[int, Row], rows: Sequence[Row]) -> dict[str, Any]:
    """Of the groups that were ranked with halving, against the score of the kept table."""
    known = {r["seed"]: r for r in rows}
    pairs = []
    for row in groups.values():
        order = [known[s] for s in row["order"] if s in known]
        place = [{**r, "place": -i} for i, r in enumerate(order)]
        pairs.append((_rho(place, "place", "score"), _rho(place, "forecast", "score")))
    if not pairs:
        return {}
    passes = [p for row in groups.values() for p in row["passes"]]
    halved, plain = (round(float(np.nanmean(v)), 3) for v in zip(*pairs, strict=True))
    return {"ranked groups": {"count": len(pairs), "halved": halved, "not halved": plain,
                              "passes": round(float(np.mean(passes)), 1)}}  # fmt: skip
