"""Which invariants of a healthy run TrainCheck finds violated in a training script.

Used as its README and the tutorial that it names say: a trace of a healthy run
(`traincheck-collect`), invariants from it (`traincheck-infer`), a trace of the script that is asked
about, and the check (`traincheck-check`). That trace is whole, as in the tutorial: with
`--invariants`, which keeps what they need alone, rules are broken by healthy runs too. The healthy
run is the patched script with another seed, which nobody has who looks for a fault, and so in its
favour; a patched script is asked about with a third seed. Variables that hold a model at the first
step are named to it. Its guide asks for short runs: all end with the twentieth step of an
optimizer. Where a run breaks with the default tracking of a model, the other one is tried, and then
none.
"""

import json
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

STEPS = 20
SECONDS = 400  # of each command, by the clock
STYLES = ("proxy", "subclass", "")
SEEDS = re.compile(r"(?i)(seed\w*(?:\(|['\"]?(?:: ?int)? ?[=:] ?)|seed.*default=)(\d+)")
SHORT = f"""
import signal, sys
from torch.optim.optimizer import register_optimizer_step_post_hook
steps = []
def stepped(*_):
    steps.append(1)
    if len(steps) >= {STEPS}: sys.exit()
register_optimizer_step_post_hook(stepped)
signal.alarm({SECONDS})  # a command that is stopped leaves the run that it began
"""
NAMED = """
import runpy, sys, torch
from torch.optim.optimizer import register_optimizer_step_post_hook
class Enough(BaseException): pass
def trained(value):
    return isinstance(value, torch.nn.Module) and next(value.parameters(), None) is not None
def stepped(*_):
    frame, names = sys._getframe(), set()
    while frame is not None:
        if frame.f_code.co_filename == sys.argv[0]:
            names |= {name for name, value in frame.f_locals.items() if trained(value)}
        frame = frame.f_back
    print("NAMES", *sorted(names))
    raise Enough
register_optimizer_step_post_hook(stepped)
sys.argv = sys.argv[1:]
try: runpy.run_path(sys.argv[0], run_name="__main__")
except Enough: pass
"""


def _ran(*words: str | Path, within: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=within,
        capture_output=True,
        text=True,
        timeout=SECONDS + 20,
        check=True,
    )
    return done.stdout


def _traced(text: str, folder: Path, *words: str | Path) -> Path:
    """Where the trace of a short run of a script lies."""
    (folder / "script.py").write_text(text)
    (folder / "sitecustomize.py").write_text(SHORT)
    where = ("--pyscript", folder / "script.py", "--output-dir", folder / "trace")
    _ran("-m", "traincheck.collect_trace", *where, *words, within=folder)
    return folder / "trace"


def _seeded(file: Path, more: int) -> str:
    """A script with other seeds, where they stand in it as plain numbers."""
    return SEEDS.sub(lambda found: found[1] + str(int(found[2]) + more), file.read_text())


@cache
def _healthy(file: Path) -> tuple[str, list[str]]:
    """The invariants of a script that trains, and how its models are tracked."""
    named = [line for line in _ran("-c", NAMED, file).split("\n") if line.startswith("NAMES")]
    names = named[-1].split()[1:] if named else []
    for style in STYLES:
        how = ["--models-to-track", *names, "--model-tracker-style", style]
        how = how if names and style else []
        with tempfile.TemporaryDirectory() as kept:
            try:
                trace = _traced(_seeded(file, 1), Path(kept), *how)
                rules = Path(kept) / "invariants.json"
                words = ("-f", trace, "-o", rules)
                _ran("-m", "traincheck.infer_engine", *words, within=trace.parent)
                return rules.read_text(), how
            except subprocess.CalledProcessError as reason:
                print(f"TrainCheck, {file.name}, {style or 'none'}: {_last(reason)}", flush=True)
    raise RuntimeError("it broke however models were tracked")


def _last(reason: subprocess.CalledProcessError) -> str:
    said = (reason.stdout + reason.stderr).strip().split("\n")
    told = [line for line in said if re.match(r"\W*(\[94m)?\w*(Error|Exception)\b", line)]
    return (told or said)[-1][:200]


def violated(file: Path) -> list[str] | None:
    """The invariants that are violated, in the order of its summary; None where it breaks."""
    patched = file.with_name(f"{file.stem}_patched.py")
    faulty = patched.exists()
    try:
        rules, how = _healthy(patched if faulty else file)
        with tempfile.TemporaryDirectory() as kept:
            into = Path(kept) / "invariants.json"
            into.write_text(rules)
            trace = _traced(file.read_text() if faulty else _seeded(file, 2), Path(kept), *how)
            told = Path(kept) / "told"
            words = ("-f", trace, "-i", into, "-o", told)
            _ran("-m", "traincheck.checker", *words, within=trace.parent)
            found = json.loads((told / trace.name / "violations_summary.json").read_text())
            return [rule["display_name"] for rule in found["violations"]]
    except subprocess.CalledProcessError as reason:
        print(f"TrainCheck, {file.name}: {_last(reason)}", flush=True)
    except (subprocess.TimeoutExpired, RuntimeError) as reason:
        print(f"TrainCheck, {file.name}: {str(reason)[-200:]}", flush=True)
    return None
