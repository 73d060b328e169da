"""Shapes that functions annotate are checked, with all other types in them, where tests call them.

Of functions that annotate none pyright says as much, and to check them too takes as long as all
tests: `make slow` does, by the option `--jaxtyping-packages`.
"""

import ast
import functools
import gc
from collections.abc import Callable, Generator
from pathlib import Path
from types import FunctionType
from typing import Any

import jaxtyping
import pytest
from jaxtyping import _import_hook, install_import_hook

CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
ROOT = Path(__file__).parent
ENOUGH = 6  # calls of a function that are checked in each test: some make thousands
TESTS = [0]  # how many have begun


class Transformer(_import_hook.JaxtypingTransformer):
    """Leaves alone what annotates no shape itself: pyright says as much of it, and takes no time.

    Above all a function inside another, which is made anew in each call of the outer one, as its
    checks would be.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Checks of a function, if it gets any."""
        if "[Tensor, " in ast.unparse(node):
            return super().visit_FunctionDef(node)
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        """Checks of the fields of a class, if they get any."""
        fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
        if any("[Tensor, " in ast.unparse(part) for part in fields):
            return super().visit_ClassDef(node)
        self.generic_visit(node)
        return node


def sparing(jaxtyped: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator of the checks, by which a test checks the first calls of each function."""

    def decorator(**how: Any) -> Callable[[Any], Any]:
        def decorated(plain: Any) -> Any:
            checked, test, left = jaxtyped(plain, **how), -1, 0
            if not isinstance(plain, FunctionType):
                return checked

            @functools.wraps(checked)
            def call(*args: Any, **named: Any) -> Any:
                nonlocal test, left
                if test != TESTS[0]:
                    test, left = TESTS[0], ENOUGH
                left -= 1
                return (checked if left >= 0 else plain)(*args, **named)

            return call

        return decorated

    return decorator


def annotated() -> list[str]:
    """Modules that annotate shapes."""
    files = [f.relative_to(ROOT) for f in (ROOT / "sigmascope").rglob("*.py")]
    found = [f for f in files if "from jaxtyping" in (ROOT / f).read_text(encoding="utf-8")]
    return sorted(".".join(f.with_suffix("").parts) for f in found)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Leave the checks out: old compilers do not see through them (`tests/release/pairs.py`)."""
    parser.addoption("--no-shapes", action="store_true", help="check no shapes and types")


def pytest_configure(config: pytest.Config) -> None:
    """Before any of the package is imported."""
    if not config.getoption("--jaxtyping-packages") and not config.getoption("--no-shapes"):
        _import_hook.JaxtypingTransformer = Transformer
        jaxtyping.jaxtyped = sparing(jaxtyping.jaxtyped)
        install_import_hook(annotated(), CHECKER)


def pytest_runtest_setup() -> None:
    """Another test, which checks anew."""
    TESTS[0] += 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """A million objects are made that stay: no search for garbage looks at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
