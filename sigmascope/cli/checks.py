"""`sigmascope check` and `sigmascope theorems`."""

from pathlib import Path

from sigmascope.cli.options import DEFAULT, Names, Source, open_named, subject_of
from sigmascope.cli.outputs import HEALTHY, finish, require_targets, show, terminal


def check(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    theorem: Names = None,
    json: str | None = None,
    plot: Path | None = None,
    strict: bool = False,
) -> int:
    """Check the theorems that speak of a model, layer by layer.

    Examples:
        # one theorem, on a network that is built in
        sigmascope check 'mlp?depth=8&norm=batch' --theorem rank-participation

        # all that speak of your network, as a test of its implementation
        sigmascope check net.py:build --data set.npz --checkpoint weights.pt --strict

    Args:
        model: What to check; as for `profile`.
        source: The data and weights.
        theorem: Only these; `sigmascope theorems` lists them.
        json: Write the checks here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        strict: End with exit code 1 if a theorem is violated.
    """
    from sigmascope import theory
    from sigmascope.core import guard, records
    from sigmascope.theory import presentation

    require_targets(json=json, plot=plot, inputs=source.files)
    names = [t.name for t in theory.OF_MODELS]
    unknown = [t for t in theorem or () if t not in names]
    if unknown:
        raise guard.Refusal(
            f"There is no theorem `{unknown[0]}`; there are {', '.join(names)}. "
            "`sigmascope theorems` says what they state."
        )
    opened, data = open_named(model, source)
    found = tuple(theory.check(subject_of(opened, data, source), only=theorem))
    failed = strict and any(c.verdict == records.Verdict.VIOLATED for c in found)
    return finish(presentation.Checks(found), json=json, plot=plot, failed=failed)


def theorems() -> int:
    """List every theorem that can be checked: its name, what it says, where it is from.

    Examples:
        # all of them
        sigmascope theorems

        # those of one paper
        sigmascope theorems | grep -B 3 'Daneshmand et al. 2020'
    """
    from sigmascope import theory
    from sigmascope.theory import presentation

    show(presentation.theorems_text(theory.THEOREMS, **terminal()))
    return HEALTHY
