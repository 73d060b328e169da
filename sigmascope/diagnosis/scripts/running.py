"""Scripts in processes of their own: each is forked from one that has imported torch.

`Runner` starts a process of Python that waits for jobs, and forks for each of them. What is slow to
load is loaded once: torch, what its optimizers load, and then what a script has imported of
libraries that are known to start no threads. Every job leads a group of processes, so that
whatever a script starts ends with it. Files that a script writes are its own business.
"""

import contextlib
import gc
import importlib
import multiprocessing
import os
import pickle
import random
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from multiprocessing import util
from pathlib import Path
from statistics import fmean
from types import FrameType, ModuleType
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from sigmascope.core import guard
from sigmascope.core.guard import PACKAGE, Closing, Refusal, on_cpu, printable
from sigmascope.core.records import Finding
from sigmascope.diagnosis import Program, diagnose
from sigmascope.diagnosis.rules.outputs import UNFIT_TARGETS
from sigmascope.diagnosis.rules.representations import UNRELATED_TARGETS
from sigmascope.diagnosis.scripts import processes
from sigmascope.diagnosis.scripts.interventions import Intervention
from sigmascope.diagnosis.scripts.observer import Observer, Stopped, is_own
from sigmascope.diagnosis.scripts.processes import NeedsOthers, as_one, tell_as_launcher
from sigmascope.diagnosis.scripts.replay import SAMPLES, program_of_step
from sigmascope.diagnosis.scripts.seen import ScriptRun

LIBRARIES = frozenset({  # that start no threads when they are imported, so that one may fork
    "accelerate", "huggingface_hub", "lightning", "lightning_fabric", "lightning_utilities",
    "numpy", "pandas", "peft", "pytorch_lightning", "safetensors", "scipy", "sklearn", "timm",
    "tokenizers", "torch", "torch_geometric", "torchaudio", "torchmetrics", "torchvision",
    "transformers",
})  # fmt: skip
UNTOLD = "the loss takes nothing of the batch but outputs, and what is to be learned is not known"
UNENDED = "it takes longer than there is time for"
LATER = "what is trained from the second optimizer on"
KILLED = "killed"  # in the place of an exception, where the process ended in the middle
FEW = 8  # steps, of which the loss is taken
TOLD_APART = 0.9  # of the loss of the best constant
GRACE = 10.0  # seconds that a script has to end, once it is asked to


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it is started.

    Attributes:
        target: A file of Python, or the name of a module that `python -m` runs.
        arguments: Its own.
        folder: Where it is run; the present one if not given.
        launched: Whether it is told to be one of two processes, as `torchrun` tells it.
        alone: Whether it is the only one of its processes, however many it asks for.
        inside: Which of the functions that it gives to processes of its own is called in its own,
            from 1 on; 0 for none.
    """

    target: str
    arguments: tuple[str, ...] = ()
    folder: str = ""
    launched: bool = False
    alone: bool = False
    inside: int = 0

    @property
    def name(self) -> str:
        """Of the file, without its folder, or of the module."""
        return Path(self.target).name

    @property
    def is_file(self) -> bool:
        return self.target.endswith(".py")


@dataclass(frozen=True)
class Job:
    """One run of a script.

    Attributes:
        script: Which.
        steps: After which it is stopped.
        seconds: The same, in time from the first call of a model on.
        least: Seconds from there that it is given, if it makes these steps before.
        start: Seconds that it may take until then.
        seed: Added to every seed that the script sets itself.
        intervention: What is done otherwise.
        network: Seconds for the diagnosis of the network that was seen; 0 for none.
        traced: The step from which one listens for what ceases to be a number; None for none.
        output: File that takes what the script prints; that of this process if not given.
        imports: Modules that are loaded before the script begins; a runner adds what scripts have
            loaded before.
        source: What is run in the place of what the file holds, if that is changed.
        bare: Whether nothing is watched, so that what it raises is its own.
        rank: Of the process in whose place it is run, of several.
        objects: What the first of these broadcast that is no tensor, in order.
    """

    script: Script
    steps: int
    seconds: float
    least: float = 0.0
    start: float = 60.0
    seed: int = 0
    intervention: Intervention = field(default_factory=Intervention)
    network: float = 0.0
    traced: int | None = None
    output: str = ""
    imports: tuple[str, ...] = ()
    source: str = ""
    bare: bool = False
    rank: int = 0
    objects: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes:
        run: What was seen, without the model and its batches.
        findings: Of the network and its task.
        unread: Why nothing is said of them; empty where it is.
        late: Whether the script had to be ended from outside.
        loaded: Modules of known libraries that it imported.
    """

    run: ScriptRun
    findings: tuple[Finding, ...] = ()
    unread: str = ""
    late: bool = False
    loaded: tuple[str, ...] = ()


# what keeps it from beginning, as a limit of memory, is said where it was asked for
BEGINS = "could not begin"
SERVE = f"""
try:
    from sigmascope.diagnosis.scripts import running
    run = running.ready()
except Exception as error:
    print("{BEGINS}:", type(error).__name__, *str(error).split(), flush=True)
else:
    run()
"""


class Runner(Closing):
    """Runs jobs, one at a time.

    Raises:
        Refusal: If the process that runs them ends, with what it said.
        RuntimeError: If a fault of ours ends a job, with where it was.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sigmascope-script-")
        words = [
            sys.executable,
            "-c",
            SERVE,
        ]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._count = 0
        self._loaded: dict[str, None] = {}

    def close(self) -> None:
        """End what runs, and forget its files."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        if self._process.poll() is None:
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._folder.cleanup()

    def run(self, job: Job) -> Outcome:
        """Run one job to its end.

        Args:
            job: What is run.
        """
        self._count += 1
        given, made = (Path(self._folder.name) / f"{self._count}.{w}" for w in ("job", "outcome"))
        _file(given, replace(job, imports=(*job.imports, *self._loaded)))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{given}\t{made}\n")
            self._process.stdin.flush()
            said = self._process.stdout.readline().strip()
        except BrokenPipeError:
            said = ""
        if said.startswith(BEGINS):
            raise Refusal(
                f"The process that runs scripts {printable(said)[:300]}. Allow it more memory or "
                "open files (`ulimit -a` shows what is allowed)."
            )
        if not said:
            raise Refusal(
                "The process that runs scripts has ended before its time; the script may have "
                "taken all memory. Try fewer steps (`--steps`)."
            )
        late = said == "late"
        if not made.exists():
            run = ScriptRun() if late else ScriptRun(error=(KILLED, said, ""))
            return Outcome(run, late=late)
        outcome = pickle.loads(made.read_bytes())
        if isinstance(outcome, str):
            raise RuntimeError(f"a script could not be watched to its end:\n{outcome}")
        found = replace(outcome, late=late)
        self._loaded.update(dict.fromkeys(found.loaded))
        return found


# ------------------------------------------------------------------------------
# In the process that waits for jobs, and in those that are forked from it.


def ready() -> Callable[[], None]:
    """What runs jobs that are named on standard input, until it ends; all is loaded for it."""
    torch.optim.SGD([torch.zeros(1)], lr=1.0)  # the first optimizer loads much: once, not in forks
    if torch.distributed.is_available():  # nor what processes are launched by
        importlib.import_module("torch.distributed.launcher.api")
    return _serve


def _serve() -> None:
    says = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what scripts print goes where words to the person go
    for line in sys.stdin:
        given, made = line.rstrip("\n").split("\t")
        job: Job = pickle.loads(Path(given).read_bytes())
        for name in job.imports:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.freeze()  # what is loaded stays: a search for garbage in a fork would copy all of it
        says.write(f"{_apart(job, made)}\n")
        says.flush()


def _apart(job: Job, made: str) -> str:
    """Run a job in a fork; `late`, or how its process ended."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        try:
            _watched(job, made)
        except BaseException:  # noqa: BLE001 (a fault of ours, told where the job was asked for)
            _file(Path(made), traceback.format_exc())
        finally:
            with contextlib.suppress(Exception):  # a script may have closed it, or put None there
                sys.stdout.flush()
            with contextlib.suppress(Exception):  # locks and pools that it made, and not its queues
                vars(util)["_run_finalizers"](0)
            with contextlib.suppress(Exception):  # and the folder of its sockets
                shutil.rmtree(vars(multiprocessing.current_process())["_config"]["tempdir"])
            os._exit(0)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    ends = time.monotonic() + job.start + job.seconds + job.network + GRACE
    told = False
    previous = signal.signal(signal.SIGTERM, partial(_end_all, pid))
    try:
        while True:
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                _kill(pid, signal.SIGKILL)  # what it has started and left
                if told:
                    return "late"
                if os.WIFSIGNALED(status):
                    return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
                return f"exit code {os.WEXITSTATUS(status)}"
            if time.monotonic() > ends:
                _kill(pid, signal.SIGKILL if told else signal.SIGINT)
                told, ends = True, time.monotonic() + GRACE
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _end_all(pid: int, *_: int | FrameType | None) -> None:
    _kill(pid, signal.SIGKILL)
    os._exit(1)


def _kill(pid: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, how)


def _watched(job: Job, made: str) -> None:
    """Run a script under an observer, and write down what was seen."""
    if not job.script.is_file:  # which is named from here, wherever it is run
        sys.path.append(str(Path.cwd()))
    if job.script.folder:
        os.chdir(job.script.folder)
    if job.script.launched:
        tell_as_launcher(job.rank, 1 if job.script.alone else 2)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if job.output:
        fd = os.open(job.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
    before = {*sys.modules}
    run = run_here(job)
    fresh = (name for name in sys.modules if name not in before)
    outcome = Outcome(run, loaded=tuple(n for n in fresh if n.partition(".")[0] in LIBRARIES))
    if job.network:
        step, run.step = run.step, None
        outcome = replace(outcome, unread=UNENDED)
        _file(Path(made), outcome)  # for this process may be ended in the middle of what comes now
        run.step = step
        with contextlib.suppress(KeyboardInterrupt):
            outcome = _with_network(replace(outcome, unread=""), job.network)
    outcome.run.step = None
    _file(Path(made), outcome)


def _file(path: Path, what: Any) -> None:
    """One of our own for the other process, whole or not at all."""
    with guard.replacing(path, mark=guard.Mark(b"\x80")) as fresh, fresh.open("wb") as out:
        pickle.dump(what, out)


def run_here(job: Job) -> ScriptRun:
    """Run a script in this process, under an observer.

    Args:
        job: Which, and for how long.
    """
    limits = {"steps": job.steps, "seconds": job.seconds, "least": job.least}
    recorded = job.network > 0
    watch = Observer(**limits, intervention=job.intervention, recorded=recorded, traced=job.traced)
    how: dict[str, Any] = {"alone": job.script.alone, "inside": job.script.inside}
    how |= {"objects": job.objects, "unwatched": watch.close}
    with seeded(job.seed, job.rank), as_one(watch.run, job.rank, **how), _leaving():
        try:
            with contextlib.nullcontext() if job.bare else watch:
                started(job.script, job.source)
        except Stopped:
            pass
        except (SystemExit, _Left) as error:
            code = error.code if isinstance(error, SystemExit) else error.args[0]
            if code not in (None, 0):
                watch.run.error = ("SystemExit", str(code), "")
        except KeyboardInterrupt:
            watch.run.stopped = True
        except BaseException as error:  # noqa: BLE001 (theirs, whatever it is: told as theirs)
            # told without the lines of what starts, runs and watches the script
            frames = traceback.extract_tb(error.__traceback__)
            starts = (__file__, processes.__file__, runpy.__file__)
            theirs = [f for f in frames if not f.filename.startswith((PACKAGE, *starts, "<frozen"))]
            lines = traceback.format_list(theirs) + traceback.format_exception_only(error)
            watch.run.error = (type(error).__name__, str(error), "".join(lines))
            ours = [
                f for f in frames if f.filename.startswith(PACKAGE) and f.filename not in starts
            ]
            if frames[-1].filename in starts[:2] and not isinstance(error, NeedsOthers):
                ours = frames
            if ours and not job.bare:  # the last place of this package that it came through
                watch.run.crossed = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    return watch.run


@contextlib.contextmanager
def _leaving() -> Iterator[None]:
    """Let a script that leaves by `os._exit` end, so that what was seen of it is not lost."""
    leave, here = os._exit, os.getpid()

    def left(status: int) -> NoReturn:
        main = os.getpid() == here and threading.current_thread() is threading.main_thread()
        if not (main and is_own(sys._getframe(1).f_code.co_filename)):
            leave(status)
        raise _Left(status)

    os._exit = left
    try:
        yield
    finally:
        os._exit = leave


class _Left(BaseException):
    """What `os._exit` is in the place of."""


def started(script: Script, source: str = "") -> None:
    """Run a script to its end, as Python runs it.

    Args:
        script: With its arguments; its folder is not entered.
        source: In the place of what its file holds.
    """
    argv, path, own = sys.argv, sys.path[:], sys.modules["__main__"]
    sys.argv = [script.target, *script.arguments]
    try:
        if script.is_file:
            sys.path.insert(0, str(Path(script.target).resolve().parent))
            if source:
                main = sys.modules["__main__"] = ModuleType("__main__")
                main.__file__ = script.target
                exec(compile(source, script.target, "exec"), main.__dict__)
            else:
                runpy.run_path(script.target, run_name="__main__")
        else:
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(script.target, run_name="__main__", alter_sys=True)
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, own


@contextlib.contextmanager
def seeded(offset: int, rank: int = 0) -> Iterator[None]:
    """Random numbers from a known start, and seeds that the script sets moved by an offset.

    Args:
        offset: Of both.
        rank: Of the process, by which the start differs, as it does where no seed is set.
    """
    random.seed(offset + rank)
    np.random.seed(offset + rank)
    torch.manual_seed(offset + rank)
    if not offset:
        yield
        return
    places: list[tuple[Any, str]] = [(random, "seed"), (np.random, "seed")]
    places += [(torch, "manual_seed"), (torch.random, "manual_seed")]
    places += [(np.random, "default_rng")]
    own = [(owner, name, getattr(owner, name)) for owner, name in places]
    for owner, name, function in own:
        setattr(owner, name, _moved(function, offset))
    try:
        yield
    finally:
        for owner, name, function in own:
            setattr(owner, name, function)


def _moved(function: Callable[..., Any], offset: int) -> Callable[..., Any]:
    @wraps(function)
    def instead(*args: Any, **named: Any) -> Any:
        moved = [a + offset if type(a) is int else a for a in args]
        return function(*moved, **{k: v + offset if k == "seed" else v for k, v in named.items()})

    return instead


@on_cpu()
def _with_network(outcome: Outcome, seconds: float) -> Outcome:
    """The diagnosis of the model on the batches that were seen; or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script has told them
            program = program_of_run(outcome.run)
            found = diagnose(program, samples=SAMPLES, budget=seconds)
    except Refusal as reason:
        return replace(outcome, unread=str(reason))
    except Exception as error:  # noqa: BLE001 (a limit of ours, told as ours)
        words = " ".join(str(error).split()).partition(" This could be because")[0]  # of torch
        return replace(outcome, unread=f"{type(error).__name__}: {words[:300]}")
    unfit = next((f for f in found.findings if f.name == UNFIT_TARGETS.name), None)
    if unfit is not None and getattr(program.loss, "__self__", None) is outcome.run.step:
        words = unfit.says.rstrip(".")
        return replace(outcome, unread=f"the loss could not be asked again: {words}")
    data, kept = program.data, found.findings
    targets = data[-1] if isinstance(data, tuple) else None
    counts = [e.count for e in outcome.run.loaders.values() if e.count]
    if counts and isinstance(targets, Tensor):
        if targets.is_floating_point():
            names, constant = ("mse_loss",), targets.double().var().item()
        else:
            shares = targets.unique(return_counts=True)[1] / targets.numel()
            names, constant = ("cross_entropy", "nll_loss"), -(shares * shares.log()).sum().item()
        # where the loss of samples that come for the first time, before a loader begins again,
        # falls below that of a constant, targets have to do with inputs
        terms = outcome.run.terms.items()
        losses = [seen.values[: max(counts)] for (name, _), seen in terms if name in names]
        last = [fmean(values[-FEW:]) for values in losses if len(values) >= FEW]
        if any(loss < TOLD_APART * constant for loss in last):
            kept = tuple(f for f in kept if f.name != UNRELATED_TARGETS.name)
    alone = isinstance(data, tuple) and data[-1] is None
    unread = UNTOLD if alone else LATER if outcome.run.successive else ""
    return replace(outcome, findings=kept, unread=unread)


def program_of_run(run: ScriptRun) -> Program:
    """The mapping form of what was seen: model, batches, loss, optimizer.

    Args:
        run: With the step that was recorded.

    Raises:
        Refusal: If what led from the batch to the loss was not heard as a whole.
    """
    if len(run.optimizers) > 1 and not run.successive:
        raise Refusal(
            "several optimizers train by losses of their own, beside, behind or against one another"
        )
    if run.step is None:
        why = f": {run.unheard}" if run.unheard else ""
        raise Refusal(f"what leads to the loss was not heard as a whole{why}")
    program, main = program_of_step(run.step), run.main
    # of several phases the first is looked at, which begins with what was copied, and not how it is
    # trained: others follow to go on from there, or to try other settings
    known = main is not None and main.kind.lower() in ("sgd", "adam", "adamw", "rmsprop")
    if main is None or not known or run.successive:
        return program
    keep = ("momentum", "weight_decay")
    options = {k: v for k, v in main.options.items() if k in keep and v}
    return replace(program, optimizer=main.kind.lower(), lr=max(main.rates), options=options)
