"""`sigmascope explain`."""

import shutil
import textwrap

from sigmascope.cli.outputs import HEALTHY, finish, require_targets, results, show


def explain(name: str | None = None, /, *, json: str | None = None) -> int:
    """Say what a name in a report means: when it is found, what it reads, what cures it.

    Examples:
        # a finding, which is an alarm of a watch too
        sigmascope explain rank-collapse

        # all that have a name
        sigmascope explain

    Args:
        name: Of a finding, an alarm, a quantity, a remedy, a cure or a theorem; a word of the
            field, as "bottleneck rank"; a statement as its paper numbers it, as "Lemma 4"; all
            names if not given.
        json: Write what is said here as JSON; `-` for standard output, in place of the text.
    """
    from sigmascope import report

    require_targets(json=json)
    if name is not None:
        return finish(report.explain(name), json=json)
    how = {"initial_indent": "  ", "subsequent_indent": "  ", "break_on_hyphens": False}
    watched = results().isatty()
    for kind, names in report.every_name().items():
        each = "".join(f"  {n}\n" for n in names)
        if watched:
            # a name stays on one line, and what comes behind it too
            joined = " ".join(f"{n} ·".replace(" ", "\0") for n in names)[:-2]
            filled = textwrap.fill(joined, shutil.get_terminal_size().columns, **how)
            each = filled.replace("\0", " ") + "\n"
        show(f"{kind}\n{each}\n")
    return HEALTHY
