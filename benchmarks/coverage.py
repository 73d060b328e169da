"""How often every interval of a random route holds, over seeds, against what it promises.

    python -m benchmarks.coverage [--seeds 200]

The cases are those of `tests/test_coverage.py`, which has one for every public function that draws
(and fails where one is missing). Of each the worst case is shown: how many of its intervals miss
the truth, the risk that they carry, and the chance of at least so many misses were it exactly that.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from scipy.stats import binom

TESTS = Path(__file__).parents[1] / "tests"


class Recorder:
    """Notes what each case has told."""

    def __init__(self, seeds: int) -> None:
        self.seeds, self.name = seeds, ""
        self.found: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Hear every case."""
        import test_coverage

        def sure(told, true, *, scale=1.0):  # noqa: ANN001, ANN202
            told = [*told]
            missed = test_coverage.misses(told, true, scale=scale)
            self.found[self.name].append((missed, len(told), max(e.risk for e in told)))

        test_coverage.sure = sure
        items[:] = [i for i in items if f"{self.seeds}" in i.nodeid or "seeds" not in _names(i)]

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Which case it is."""
        self.name = item.name.split("[")[0].removeprefix("test_").replace("_", " ")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Cases that fail for another reason are told, not left out."""
        if report.failed:
            self.failed.append(report.nodeid)


def _names(item: pytest.Item) -> str:
    return " ".join(getattr(item, "fixturenames", ()))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=200)
    args = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    recorder = Recorder(args.seeds)
    quiet = ["-q", "-p", "no:cacheprovider", "--no-header", "-m", "slow or not slow"]
    pytest.main([str(TESTS / "test_coverage.py"), *quiet], plugins=[recorder])
    print("| route | cases | intervals | worst case misses | of | at a risk of | chance |")
    print("|---|---|---|---|---|---|---|")
    for name, cases in recorder.found.items():
        chance = [float(binom.sf(m - 1, n, r)) if r else float(m == 0) for m, n, r in cases]
        at = min(range(len(cases)), key=chance.__getitem__)
        missed, count, risk = cases[at]
        told = sum(n for _, n, _ in cases)
        print(
            f"| {name} | {len(cases)} | {told} | {missed} | {count} | {risk:g} | {chance[at]:.2g} |"
        )
    print(f"failed for another reason: {recorder.failed}")


if __name__ == "__main__":
    main()
