"""`sigmascope reproduce`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sigmascope.cli.options import Device, Workers
from sigmascope.cli.outputs import FOUND, HEALTHY, note, show
from sigmascope.cli.progress import progress_bar

_DEVICE = "Where networks are trained: `cpu`, `cuda`, `cuda:1`, `mps`; `cpu` if not given."
_OUTCOMES = {True: "holds", False: "FAILS", None: "NOT TESTED"}


def reproduce(
    figure: str | None = None,
    /,
    *,
    quick: bool = False,
    full: bool = False,
    everything: Annotated[bool, Parameter(name="--all")] = False,
    out: Path | None = None,
    folder: Path | None = None,
    workers: Workers = 1,
    device: Annotated[Device, Parameter(help=_DEVICE)] = None,
) -> int:
    """Compute a figure of a paper again, draw it, and check what it should show.

    FIGURE is `paper/figure`; with no name, all of them are listed. Rows are kept as they come, so
    that a run that was cut goes on where it was, on another device too. With `--full` networks and
    training are of the paper's size, and what that costs is said before it starts. Claims that a
    size cannot decide are listed as not tested, with the reason. The exit code is 1 if a claim
    fails, or none could be tested.

    Examples:
        # which figures there are, and how long each takes
        sigmascope reproduce

        # one of them at a size of seconds
        sigmascope reproduce daneshmand2020/fig3b --quick

    Args:
        figure: Which one.
        quick: At a size of seconds.
        full: At the size of the paper.
        everything: Every figure, one after the other.
        out: Where rows and plot go; `results/FIGURE` by default, with `-quick` or `-full` after it.
        folder: Where Fashion-MNIST and CIFAR-10 lie.
        workers: Processes to share the rows among.
        device: Where networks are trained.
    """
    import sigmascope_experiments as experiments

    if figure is None and not everything:
        listed = []
        for one in experiments.FIGURES:
            cost = f"about {one.minutes:g} min" if one.minutes >= 1 else "less than a minute"
            size = "" if one.full is None else "; the paper's size with --full"
            listed.append(f"{one.name}  ({cost} on 2 cores{size})\n  {one.says}")
        show("\n\n".join(listed))
        return HEALTHY
    chosen = experiments.FIGURES
    if not everything:
        from sigmascope.core import guard

        by_name = {f.name: f for f in experiments.FIGURES}
        if figure not in by_name:
            raise guard.Refusal(
                f"There is no figure `{figure}`; `sigmascope reproduce` lists them."
                f"{guard.nearest(figure or '', by_name)}"
            )
        chosen = (by_name[figure],)
    failed = False
    for one in chosen:
        larger = full and one.full is not None
        place = Path(one.name + ("-quick" if quick else "-full" if larger else ""))
        target = (out or Path("results")) / place if everything or out is None else out
        if full and not larger:
            note(f"{one.name}: the usual size is the one to take. {one.stated}")
        if device not in (None, "cpu") and not one.on_device:
            note(f"{one.name} is computed on cpu: its matrices are small.")
        with progress_bar() as progress:
            found = experiments.reproduce(
                one,
                target,
                quick=quick,
                full=full,
                workers=workers,
                data=folder,
                device=device or "cpu",
                progress=progress,
                tell=lambda words, name=one.name: note(f"{name}: {words}"),
            )
        said = [f"{one.name}: {one.says}"]
        said += [f"  At the paper's size. {one.stated}"] * larger
        said += [f"  {_OUTCOMES[c.holds]}  {c.says}: {c.found}" for c in found.claims]
        open_ones = sum(c.holds is None for c in found.claims)
        tested = f"{len(found.claims) - open_ones} of {len(found.claims)} claims tested"
        said.append(f"  {tested}{'; this size cannot tell the others' if open_ones else ''}")
        show("\n".join(said))
        if found.picture is None:
            note("For a plot: pip install 'sigmascope[figures]', and say the same again.")
        note(f"Wrote {target}")
        failed |= found.failed
    return FOUND if failed else HEALTHY
