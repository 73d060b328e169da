"""The application: its commands, and what becomes of what they raise."""

import errno
import os
import re
import sys
import traceback
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import cyclopts
from cyclopts import Parameter

from sigmascope.cli.comparisons import compare
from sigmascope.cli.compressions import compress
from sigmascope.cli.diagnoses import diagnose
from sigmascope.cli.explanations import explain
from sigmascope.cli.outputs import (
    HEALTHY,
    INTERRUPTED,
    MISUSED,
    epilogue,
    note,
    require_streams,
    results_apart,
)
from sigmascope.cli.profiles import profile
from sigmascope.cli.progress import STATUS
from sigmascope.cli.rankings import rank
from sigmascope.cli.remedies import remedy
from sigmascope.cli.reproductions import reproduce
from sigmascope.cli.runs import export, view
from sigmascope.cli.scans import scan
from sigmascope.cli.theory import (
    balances,
    bottleneck,
    check,
    landscape,
    predict,
    scale,
    theorems,
    train,
)
from sigmascope.cli.widths import widths
from sigmascope.core import guard

app = cyclopts.App(
    name="sigmascope",
    help="Measure the singular values of a deep network and say what they mean.",
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # main() says it
    default_parameter=Parameter(negative=()),  # no `--no-strict`: it says nothing
)
COMMANDS = (
    profile,
    diagnose,
    scan,
    check,
    remedy,
    balances,
    compare,
    bottleneck,
    compress,
    landscape,
    scale,
    predict,
    rank,
    widths,
    reproduce,
    theorems,
    explain,
    export,
    view,
)
AT_ONCE = (theorems, explain, export, view)  # which have no work to speak of, or end by themselves
NO_MEMORY = re.compile("not enough memory|can't allocate memory|out of memory", re.IGNORECASE)
UNLOADED = re.compile(r"\.so\b|\.dll\b|\.dylib\b|DLL load failed")  # of compiled code
ADDRESSES = 10**9  # bytes that torch and SciPy map before they work; they do with 0.92e9
NARROW = 40  # columns; in fewer, help would be laid out for ever
UNDER = {"bottleneck": (train,)}  # commands of commands
for command in COMMANDS:
    inner = cyclopts.App(name=command.__name__, help_epilogue=epilogue(command))
    inner.default(command)
    for below in UNDER.get(command.__name__, ()):
        inner.command(below, help_epilogue=epilogue(below))
    app.command(inner)
app.register_install_completion_command(
    help="Complete commands and options by Tab: write a script for your shell (docs/cli.md)."
)


def main() -> None:
    """Run the command line; a refusal is one sentence on standard error and exit code 2."""
    require_streams()
    debug = "--debug" in sys.argv[1:]
    # what libraries below us take for granted, and end or hang without
    try:
        Path.cwd()
    except FileNotFoundError:
        note("sigmascope: The working folder is gone; `cd` to one that is there.")
        sys.exit(MISUSED)
    said = os.environ.get("COLUMNS", "")
    widths = [int(said)] if said.isdecimal() else []
    for descriptor in range(3):
        with suppress(OSError):  # no terminal
            widths.append(os.get_terminal_size(descriptor).columns)
    if min(widths, default=NARROW) < NARROW:
        os.environ["COLUMNS"] = str(NARROW)
    words = [word for word in sys.argv[1:] if word != "--debug"]
    # `--json -` as `--json=-`: a hyphen alone is an option to cyclopts, which would refuse it
    ours = (("--json", "-"), ("--lines", "-"))
    at = [i for i, pair in enumerate(pairwise(words)) if pair in ours]
    words = [w if i not in at else f"{w}=-" for i, w in enumerate(words) if i - 1 not in at]
    try:
        command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        if command not in (*COMMANDS, *sum(UNDER.values(), ())):  # help or the version
            command(*bound.args, **bound.kwargs)
            sys.exit(HEALTHY)
        _require_address_space()
        with results_apart():
            if command not in AT_ONCE:
                STATUS.begin("loading torch")
            code = command(*bound.args, **bound.kwargs)
        sys.exit(code)
    except cyclopts.CycloptsError as error:
        error.verbose = False  # else it shows the signature of our function
        said = " ".join(str(error).split())
        if isinstance(error, cyclopts.UnusedCliTokensError):
            left = error.unused_tokens or [""]
            said = (
                f"`{' '.join(left)}` is left over: what belongs to an option stands behind its "
                f"name, `--NAME {left[0]}`."
            )
        said = said.removesuffix(".") if said.endswith("?.") else said
        built = [word for word in words if re.fullmatch(r"(mlp|vgg|resnet)\d*(\?.*)?", word)]
        if isinstance(error, cyclopts.UnknownOptionError) and built:
            key = (error.token.keyword or "").lstrip("-")
            more = f"'{built[0]}{'&' if '?' in built[0] else '?'}{key}=VALUE'"
            said += f" What a network of ours is made of stands in its name: `{more}`."
        named = " ".join(("sigmascope", *(error.command_chain or ())))
        note(f"sigmascope: {said} `{named} --help` helps.")
    except KeyboardInterrupt:
        note("Interrupted.")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has left, as `| head` does
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(HEALTHY)
    except Exception as error:  # whatever is left is ours, and is one sentence all the same
        if debug:
            raise
        note(f"sigmascope: {_said(error)}")
        if isinstance(error, guard.Refusal | OSError):
            named = " ".join(("sigmascope", *app.parse_commands(words)[0]))
            note(f"`{named} --help` shows how it is called, with examples.")
    finally:
        STATUS.end()
    sys.exit(MISUSED)


def _require_address_space() -> None:
    """Refuse to begin where OpenBLAS, for want of memory, would ask for it again without end."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and allowed < ADDRESSES:
        raise guard.Refusal(
            f"The shell allows {allowed / 1e9:.2f} GB of address space (`ulimit -v`); torch and "
            f"SciPy take {ADDRESSES / 1e9:.0f} GB before the first number, and hang without. "
            "Allow more (`ulimit -v unlimited`)."
        )


def _said(error: BaseException) -> str:
    """A refusal in its own words; of anything else what it is, and whose fault."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return (
            f"There are too few open files allowed here ({error}): allow more (`ulimit -n 1024`), "
            "or ask for fewer processes (`--workers 1`)."
        )
    if isinstance(error, guard.Refusal | OSError):
        return str(error)
    if isinstance(error, ImportError) and UNLOADED.search(str(error)):
        return (
            f"A library could not be loaded ({error}): it is damaged, of another machine, or there "
            "is no memory left for it (`ulimit -v`). Allow more memory, or install it again."
        )
    if isinstance(error, MemoryError) or NO_MEMORY.search(str(error)):
        return f"There is not enough memory ({error}): take fewer samples, or a smaller model."
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(p.filename).name}, line {p.lineno})" for p in place)
    return (
        f"This is a fault of sigmascope, not of yours: {type(error).__name__}: {error}{where}. "
        "Nothing was written after it. `--debug` shows where; please report it with that."
    )
