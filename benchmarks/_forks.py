"""Tests run in forks of one process that has imported the package, so that each starts at once.

A change inside functions is put into the fork by exchanging their code objects; a change of what
runs on import needs a fork that imports the package itself. No file is ever written.
"""

import contextlib
import gc
import importlib
import importlib.machinery
import json
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn

import beartype
import jaxtyping
import pytest

CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
OPTIONS = (
    *("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", "-o", "addopts="),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # what is imported before the fork
)
MEMORY = 10 * 2**30
Functions = dict[tuple[str, str, int], list[FunctionType]]


def in_fork(run: Callable[[], Any], *, seconds: float) -> Any:
    """What a function returns in a forked process (as JSON); None where it is late or dies."""
    near, far = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(near)
        _answer(run, far)
    os.close(far)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.alarm(int(seconds) + 1)
    with os.fdopen(near) as pipe:
        said = pipe.read()
    signal.alarm(0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(said) if said else None


def _answer(run: Callable[[], Any], far: int) -> NoReturn:
    """The life of a fork: it is silent, says what it found, and never returns."""
    os.setsid()
    errors = os.dup(2)
    try:
        with os.fdopen(far, "w") as pipe, Path(os.devnull).open("w") as null:
            os.dup2(null.fileno(), 1)
            os.dup2(null.fileno(), 2)
            pipe.write(json.dumps(run()))
    except BaseException:  # noqa: BLE001  (a fork must not go on as its parent would)
        os.write(errors, traceback.format_exc().encode())
    finally:
        os._exit(0)


def import_all() -> None:
    """The package with all its rooms, under the type checker that the tests use."""
    with jaxtyping.install_import_hook(["sigmascope"], CHECKER):
        package = importlib.import_module("sigmascope")
        for module in pkgutil.walk_packages(package.__path__, "sigmascope."):
            if not module.name.endswith("__main__") and ".integrations" not in module.name:
                importlib.import_module(module.name)


def functions() -> Functions:
    """All functions of the package, by file, name and first line."""
    found: Functions = defaultdict(list)
    for f in gc.get_objects():
        if type(f) is FunctionType and "sigmascope" in f.__code__.co_filename:
            found[_place(f.__code__)].append(f)
    return found


def exchange(found: Functions, path: Path, source: bytes) -> bool:
    """Give the functions of a module the code that another source has; whether any changed."""
    name = f"sigmascope.{'.'.join(path.with_suffix('').parts[1:]).removesuffix('.__init__')}"
    loader: Any = sys.modules[name].__loader__
    file = sys.modules[name].__file__
    assert file is not None
    old = _codes(loader.source_to_code(path.read_bytes(), file))
    new = _codes(loader.source_to_code(source, file))
    changed = False
    for before, after in zip(old, new, strict=True):
        for f in found.get(_place(before), ()):
            if before != after or _codes(before) != _codes(after):
                f.__code__, changed = after, True
    return changed


@contextlib.contextmanager
def read_instead(path: Path, source: bytes) -> Iterator[None]:
    """Imports of one file read something else, and no compiled file is read or written for it."""
    loader = importlib.machinery.SourceFileLoader
    usual = loader.get_code

    def get_code(self: Any, name: str) -> CodeType | None:
        if Path(self.path) == path.absolute():
            return self.source_to_code(source, self.path)
        return usual(self, name)

    loader.get_code = get_code  # type: ignore[method-assign]
    try:
        yield
    finally:
        loader.get_code = usual  # type: ignore[method-assign]


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> list[CodeType]:
    """A code object and those inside, outermost first."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return [code, *(c for part in inner for c in _codes(part))]


class Fastest:
    """A plug-in: only the tests asked for, the fastest first, each with a limit on its time."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.killer = seconds, ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose and sort."""
        items[:] = sorted(
            (i for i in items if i.nodeid in self.seconds), key=lambda i: self.seconds[i.nodeid]
        )

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Twelve times what it took before, in processor time, is too long."""
        self.killer = f"time: {item.nodeid}"
        signal.signal(signal.SIGPROF, self._late)
        signal.setitimer(signal.ITIMER_PROF, 10 + 12 * self.seconds[item.nodeid])

    def _late(self, *_: object) -> None:
        raise TimeoutError

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the first that fails."""
        if report.failed and not self.killer.startswith("test: "):
            late = "TimeoutError" in str(report.longrepr)
            self.killer = f"{'time' if late else 'test'}: {report.nodeid}"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A test file that cannot be imported fails."""
        if report.failed:
            self.killer = f"import: {report.nodeid}"


def killer(seconds: dict[str, float]) -> str:
    """The first of these tests that fails here; empty where all pass."""
    resource.setrlimit(resource.RLIMIT_AS, (_memory() + MEMORY, _memory() + MEMORY))
    plugin = Fastest(seconds)
    files = sorted({test.partition("::")[0] for test in seconds})
    code = pytest.main([*OPTIONS, *files], plugins=[plugin])
    signal.setitimer(signal.ITIMER_PROF, 0)
    return "" if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else plugin.killer


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


class Traced:
    """A plug-in: which lines of the package each test runs, and how long it takes."""

    def __init__(self, package: Path) -> None:
        self.package, self.found = str(package), {}
        self.calls: dict[CodeType, int] = defaultdict(int)
        self.lines: dict[str, set[int]] = defaultdict(set)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace one test, with its fixtures."""
        self.calls.clear()
        self.lines.clear()
        start = time.process_time()
        sys.settrace(self._call)
        yield
        sys.settrace(None)
        lines = {
            f[len(self.package) + 1 :]: f"{sum(1 << n for n in seen):x}"
            for f, seen in self.lines.items()
        }
        self.found[item.nodeid] = [time.process_time() - start, lines]

    def _call(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if not code.co_filename.startswith(self.package):
            return None
        self.calls[code] += 1
        if self.calls[code] > 30:  # whatever it does, it has done by now
            return None
        seen = self.lines[code.co_filename]
        seen.add(frame.f_lineno)

        def line(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
            seen.add(frame.f_lineno)
            return line

        return line


def trace(file: str, package: Path) -> dict[str, list[Any]]:
    """Every quick test of a file, with its seconds and the lines of the package that it runs."""
    plugin = Traced(package)
    pytest.main([o for o in OPTIONS if o != "-x"] + ["--doctest-modules", file], plugins=[plugin])
    return plugin.found


assert beartype  # the checker is named in words above
