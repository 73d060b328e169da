"""The application: its commands, and what becomes of what they raise."""

import os
import sys
from itertools import pairwise

import cyclopts
from cyclopts import Parameter

from sigmascope import __version__
from sigmascope.cli.balances import balances
from sigmascope.cli.bottlenecks import bottleneck
from sigmascope.cli.checks import check, theorems
from sigmascope.cli.comparisons import compare
from sigmascope.cli.compressions import compress
from sigmascope.cli.exports import export
from sigmascope.cli.landscapes import landscape
from sigmascope.cli.outputs import HEALTHY, INTERRUPTED, MISUSED, note
from sigmascope.cli.predictions import predict
from sigmascope.cli.profiles import profile
from sigmascope.cli.remedies import remedy
from sigmascope.cli.reproductions import reproduce
from sigmascope.cli.scales import scale
from sigmascope.cli.sweeps import train

app = cyclopts.App(
    name="sigmascope",
    help="Measure the singular values of a deep network and say what they mean.",
    version=__version__,
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # main() says it
    default_parameter=Parameter(negative=()),  # no `--no-strict`: it says nothing
)
COMMANDS = (
    profile,
    check,
    remedy,
    balances,
    compare,
    bottleneck,
    compress,
    landscape,
    scale,
    predict,
    reproduce,
    theorems,
    export,
)
UNDER = {"bottleneck": (train,)}  # commands of commands
for command in COMMANDS:
    inner = cyclopts.App(name=command.__name__)
    inner.default(command)
    for below in UNDER.get(command.__name__, ()):
        inner.command(below)
    app.command(inner)


def main() -> None:
    """Run the command line; a refusal is one sentence on standard error and exit code 2."""
    debug = "--debug" in sys.argv[1:]
    words = _joined([word for word in sys.argv[1:] if word != "--debug"])
    try:
        code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        note(f"sigmascope: {_usage(error)}")
        sys.exit(MISUSED)
    except KeyboardInterrupt:
        note("Interrupted.")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(HEALTHY)
    except (ValueError, OSError) as error:
        if debug or not _is_refusal(error):
            raise
        note(f"sigmascope: {error}")
        sys.exit(MISUSED)
    sys.exit(code if isinstance(code, int) else HEALTHY)


def _joined(words: list[str]) -> list[str]:
    """`--json -` as `--json=-`: a hyphen alone is an option to cyclopts, which would refuse it."""
    at = [i for i, pair in enumerate(pairwise(words)) if pair == ("--json", "-")]
    return [w if i not in at else "--json=-" for i, w in enumerate(words) if i - 1 not in at]


def _usage(error: cyclopts.CycloptsError) -> str:
    """What is wrong with the words of the command line, and which help speaks of it."""
    error.verbose = False  # else it shows the signature of our function
    words = " ".join(str(error).split())
    command = " ".join(("sigmascope", *(error.command_chain or ())))
    return f"{words.removesuffix('.') if words.endswith('?.') else words} `{command} --help` helps."


def _is_refusal(error: BaseException) -> bool:
    from sigmascope import probes, sources

    return isinstance(error, (probes.Refusal, sources.Refusal, OSError))
