"""Tests run in forks of one process that has imported the package, so that each starts at once.

A change inside functions is put into the fork by exchanging their code objects; a change of what
runs on import needs a fork that imports the package itself. No file is ever written.
"""

import ast
import builtins
import contextlib
import gc
import importlib
import importlib.machinery
import json
import os
import pkgutil
import resource
import runpy
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NoReturn

import pytest
from jaxtyping import _import_hook, install_import_hook

ROOT = Path(__file__).parents[1]
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
    try:
        with os.fdopen(far, "w") as pipe, Path(os.devnull).open("w") as null:
            os.dup2(null.fileno(), 1)
            pipe.write(json.dumps(run()))
    except BaseException:  # noqa: BLE001  (a fork must not go on as its parent would)
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(0)


def import_all() -> None:
    """The package with all its rooms, under the type checker that the tests use.

    No stricter one: a test that fails under it would be left out, and what it notices with it.
    """
    shapes = runpy.run_path(str(ROOT / "conftest.py"))
    _import_hook.JaxtypingTransformer = shapes["Transformer"]
    with install_import_hook(shapes["annotated"](), shapes["CHECKER"]):
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

    loader.get_code = get_code
    try:
        yield
    finally:
        loader.get_code = usual


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


class _Telling(ast.NodeTransformer):
    """Puts before every statement of a function a call that tells its line."""

    def __init__(self, module: int) -> None:
        self.module, self.inside = module, False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        outside, self.inside = self.inside, True
        self.generic_visit(node)
        self.inside = outside
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for part in ("body", "orelse", "finalbody"):
            body = getattr(node, part, None)
            if self.inside and isinstance(body, list):
                setattr(node, part, [new for s in body for new in self._told(s)])
        return node

    def _told(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return [statement]  # a docstring stays the first
        number = ast.Constant(self.module << 16 | statement.lineno)
        call = ast.Call(ast.Name("__ran__", ast.Load()), [number], [])
        return [ast.Expr(call), statement]


def by_file(modules: list[str], ran: set[int]) -> dict[str, str]:
    """The lines of statements that ran, as the bits of a number for each file."""
    lines: dict[str, int] = defaultdict(int)
    for number in ran:
        lines[modules[number >> 16]] |= 1 << (number & 0xFFFF)
    return {m: f"{bits:x}" for m, bits in lines.items()}


class Told:
    """A plug-in: which statements of the package each test runs, and how long it takes.

    What runs while a file is collected (tables of cases, what its tests share) is run for each of
    its tests. A test that fails on the code as it is notices nothing of a change: it is named, and
    left out.
    """

    def __init__(self, modules: list[str], ran: set[int]) -> None:
        self.modules, self.ran, self.found = modules, ran, {}
        self.failed: set[str] = set()
        self.collected: set[int] = set()

    def pytest_collection_finish(self) -> None:
        """Remember what ran until then."""
        self.collected = set(self.ran)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember those that fail."""
        if report.failed and report.nodeid not in self.failed:
            self.failed.add(report.nodeid)
            print(f"fails as it is, and is left out: {report.nodeid}", file=sys.stderr, flush=True)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """One test, with its fixtures."""
        self.ran.clear()
        start = time.process_time()
        yield
        lines = by_file(self.modules, self.ran | self.collected)
        spent = time.process_time() - start
        if item.nodeid not in self.failed:
            self.found[item.nodeid] = [spent, lines]


def import_telling(root: Path) -> tuple[list[str], set[int]]:
    """Import the package so that every statement in its functions tells when it runs."""
    loader, modules, ran = importlib.machinery.SourceFileLoader, [], set()
    usual = loader.get_code

    def get_code(self: Any, name: str) -> CodeType | None:
        if not Path(self.path).is_relative_to(root / "sigmascope"):
            return usual(self, name)
        modules.append(str(Path(self.path).relative_to(root)))
        tree = _Telling(len(modules) - 1).visit(ast.parse(Path(self.path).read_bytes()))
        return self.source_to_code(ast.unparse(ast.fix_missing_locations(tree)).encode(), self.path)

    loader.get_code = get_code
    builtins.__ran__ = ran.add
    import_all()
    return modules, ran


def trace(file: str, modules: list[str], ran: set[int]) -> dict[str, list[Any]]:
    """Every quick test of a file, with its seconds and the statements of the package it runs."""
    plugin = Told(modules, ran)
    ran.clear()  # of what ran on import
    pytest.main([o for o in OPTIONS if o != "-x"] + ["--doctest-modules", file], plugins=[plugin])
    return plugin.found
