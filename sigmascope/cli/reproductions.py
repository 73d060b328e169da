"""`sigmascope reproduce`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sigmascope.cli.options import Workers
from sigmascope.cli.outputs import FOUND, HEALTHY, note, progress_bar, show

if TYPE_CHECKING:
    pass

_OUTCOMES = {True: "holds", False: "FAILS", None: "NOT TESTED"}


def reproduce(
    figure: str | None = None,
    /,
    *,
    quick: bool = False,
    everything: Annotated[bool, Parameter(name="--all")] = False,
    out: Path | None = None,
    folder: Path | None = None,
    workers: Workers = 1,
) -> int:
    """Compute a figure of a paper again, draw it, and check what it should show.

    FIGURE is `paper/figure`; with no name, all of them are listed. Rows are kept as they come, so
    that a run that was cut goes on where it was. Claims that a size cannot decide are listed as not
    tested, with the reason. The exit code is 1 if a claim fails, or none could be tested.

    Examples:
        # which figures there are, and how long each takes
        sigmascope reproduce

        # one of them at a size of seconds
        sigmascope reproduce daneshmand2020/fig3b --quick

    Args:
        figure: Which one.
        quick: At a size of seconds.
        everything: Every figure, one after the other.
        out: Where rows and plot go; `results/FIGURE` by default, with `-quick` if quick.
        folder: Where Fashion-MNIST and CIFAR-10 lie.
        workers: Processes to share the rows among.
    """
    import sigmascope_experiments as experiments

    if figure is None and not everything:
        listed = []
        for one in experiments.FIGURES:
            cost = f"about {one.minutes:g} min" if one.minutes >= 1 else "less than a minute"
            listed.append(f"{one.name}  ({cost} on 2 cores)\n  {one.says}")
        show("\n\n".join(listed))
        return HEALTHY
    chosen = experiments.FIGURES
    if not everything:
        from difflib import get_close_matches

        from sigmascope.core import guard

        by_name = {f.name: f for f in experiments.FIGURES}
        if figure not in by_name:
            close = get_close_matches(figure or "", list(by_name), n=1, cutoff=0.5)
            hint = f" Did you mean `{close[0]}`?" if close else ""
            raise guard.Refusal(
                f"There is no figure `{figure}`; `sigmascope reproduce` lists them.{hint}"
            )
        chosen = (by_name[figure],)
    failed = False
    for one in chosen:
        place = Path(f"{one.name}-quick" if quick else one.name)
        target = (out or Path("results")) / place if everything or out is None else out
        with progress_bar() as progress:
            found = experiments.reproduce(
                one, target, quick=quick, workers=workers, data=folder, progress=progress
            )
        said = [f"{one.name}: {one.says}"]
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
