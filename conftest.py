"""Shapes that modules annotate are checked, with all other types in them, where tests call them.

Of modules that annotate none pyright says as much, and to check them too takes as long as all
tests: `make slow` does, by the option `--jaxtyping-packages`.
"""

import ast
import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from jaxtyping import _import_hook, install_import_hook

CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
ROOT = Path(__file__).parent


class Transformer(_import_hook.JaxtypingTransformer):
    """Leaves a function inside another alone, unless it annotates a shape of its own.

    It is made anew in each call of the outer one, and so would be its checks, which are compiled:
    that took three quarters of the time of a training.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Checks of a function, if it gets any."""
        inside = any(isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef) for p in self._parents)
        if inside and "[Tensor, " not in ast.unparse(node):
            self.generic_visit(node)
            return node
        return super().visit_FunctionDef(node)


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
        install_import_hook(annotated(), CHECKER)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """A million objects are made that stay: no search for garbage looks at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
