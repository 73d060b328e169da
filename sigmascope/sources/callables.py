"""Objects named `file.py:name` or `module.path:name`."""

import ast
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from sigmascope.core.guard import (
    Refusal,
    listed,
    nearest,
    random_states,
    read_file,
    require_file,
    told,
)

LONGEST = 16 << 20  # bytes of a file of Python


def is_callable_spec(spec: str) -> bool:
    """Whether `spec` reads `file.py:name` or `module.path:name`."""
    place, _, name = spec.rpartition(":")
    return bool(place and name) and "?" not in place and not set(name) & set("/\\?")


@contextmanager
def named(spec: str) -> Iterator[Any]:
    """The object that `spec` names, while the block runs.

    Within the block the object's file is a module like any other, and its neighbours can be
    imported; afterwards `sys.path` and `sys.modules` are as before, and no byte code was written.

    Yields:
        The object, as it is: a factory has not been called.

    Raises:
        Refusal: If there is no such file, module or name, or if importing it fails.
    """
    place, _, name = spec.rpartition(":")
    path = Path(place).expanduser()
    require_program(place)
    if path.suffix == ".py":
        require_file(path, (".py",))
        own = path.resolve()
        with _visiting(own.parent, own=own):
            read_file(own, most=LONGEST)
            # under its own name, so that neighbours may import it, unless that would hide a module
            called = own.stem if own.stem not in sys.modules else f"sigmascope_user_{own.stem}"
            found = importlib.util.spec_from_file_location(called, own)
            assert found is not None
            assert found.loader is not None
            loader, module = found.loader, importlib.util.module_from_spec(found)
            sys.modules[called] = module  # dataclasses and siblings look it up; taken out again
            _run(lambda: loader.exec_module(module), place)
            yield _attribute(module, name, spec)
    elif all(part.isidentifier() for part in place.split(".")):
        with _visiting(Path.cwd()):
            module = None
            try:
                if place in sys.modules or importlib.util.find_spec(place) is not None:
                    module = _run(lambda: importlib.import_module(place), place)
            except ModuleNotFoundError as error:
                if error.name is not None and not f"{place}.".startswith(f"{error.name}."):
                    raise Refusal(
                        f"`{place}` imports `{error.name}`, which is not installed here."
                    ) from error
            if module is None:
                raise Refusal(
                    f"There is no module `{place}` in {Path.cwd()} or among the installed "
                    "packages; for a file write `path/to/file.py:name`."
                )
            yield _attribute(module, name, spec)
    else:
        raise Refusal(
            f"`{place}` is neither a Python file (`file.py:name`) nor a module "
            "(`package.module:name`)."
        )


def require_program(place: str) -> None:
    """Refuse a notebook in the place of a file of Python.

    Raises:
        Refusal: If it is one, with the two ways that there are.
    """
    if Path(place).suffix == ".ipynb":
        raise Refusal(
            f"`{place}` is a notebook, whose cells are not run from here: `import sigmascope as "
            "ss` in it and call `ss.profile(model, batch)` there, or write the function into a "
            "file, `file.py:function`."
        )


def call(function: Callable[..., object], spec: str) -> object:
    """Call what the user wrote, without arguments.

    Raises:
        Refusal: If it needs arguments, or raises.
    """
    needed = [p.name for p in arguments(function) if p.default is p.empty]
    if needed:
        raise Refusal(
            f"`{spec}` needs the arguments {listed(needed)}, and is called without any: give them "
            "defaults, or name a function that calls it."
        )
    try:
        return function()
    except (Exception, SystemExit) as error:  # a user's function raises anything
        raise Refusal(f"`{spec}` raised {told(error)}{_line(error)}.") from error


def candidates(path: Path) -> list[str]:
    """Public functions, variables and classes of a Python file, read without running it."""
    try:
        body = ast.parse(read_file(path, most=LONGEST)).body
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
        return []
    functions = [n.name for n in body if isinstance(n, ast.FunctionDef)]
    targets = [t for n in body if isinstance(n, ast.Assign) for t in n.targets]
    classes = [n.name for n in body if isinstance(n, ast.ClassDef)]
    names = [*functions, *(t.id for t in targets if isinstance(t, ast.Name)), *classes]
    return [n for n in names if not n.startswith("_")]


@contextmanager
def _visiting(folder: Path, *, own: Path | None = None) -> Iterator[None]:
    """Let imports find what lies in `folder` while the block runs, and forget it afterwards."""
    modules, path = set(sys.modules), list(sys.path)
    writes, cached = sys.dont_write_bytecode, set(sys.path_importer_cache)
    guest = str(folder) not in path
    try:
        sys.path.insert(0, str(folder))
        sys.dont_write_bytecode = True
        importlib.invalidate_caches()  # the file may have been written a moment ago
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, writes
        fresh = [name for name in sys.modules if name not in modules]
        theirs = [n for n in fresh if (guest and _lies_in(folder, n)) or (own and _file(n) == own)]
        for name in theirs:
            del sys.modules[name]
        for entry in set(sys.path_importer_cache) - cached:
            if guest and Path(entry).is_relative_to(folder):
                del sys.path_importer_cache[entry]


def _file(name: str) -> Path | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    return Path(file) if file else None


def _lies_in(folder: Path, name: str) -> bool:
    """Whether the top package of a module is a file or a folder directly in `folder`."""
    top = name.partition(".")[0]
    packages = getattr(sys.modules.get(top), "__path__", ())
    file = _file(top)
    return folder in ([Path(p).parent for p in packages] or ([file.parent] if file else []))


def _run(import_it: Callable[[], Any], place: str) -> Any:
    """Import something, and turn whatever goes wrong into one sentence."""
    try:
        return import_it()
    except ModuleNotFoundError as error:
        if error.name is None:  # raised by a library, with words of its own
            raise Refusal(_failed(place, error)) from error
        raise Refusal(
            f"`{place}` imports `{error.name}`, which is not installed here{_line(error)}."
        ) from error
    except SyntaxError as error:
        raise Refusal(
            f"`{place}` is not valid Python: {error.msg} (line {error.lineno})."
        ) from error
    except (Exception, SystemExit) as error:  # a user's file raises anything
        raise Refusal(_failed(place, error)) from error


def _failed(place: str, error: BaseException) -> str:
    return f"Importing `{place}` raised {told(error)}{_line(error)}."


def _attribute(module: ModuleType, name: str, spec: str) -> Any:
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            own = [
                n
                for n, v in vars(module).items()
                if not n.startswith("_") and not inspect.ismodule(v)
            ]
            has = f"it has {listed(own)}" if own else "it has no public names"
            raise Refusal(
                f"`{spec}`: there is no `{name}` in `{module.__name__}`; {has}.{nearest(name, own)}"
            ) from error
    return found


def arguments(function: Callable[..., object]) -> list[inspect.Parameter]:
    """Those that a function takes by a name or a place of their own."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # some functions written in C have no signature
        return []
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p for p in parameters if p.kind not in loose]


def _line(error: BaseException) -> str:
    """Where in the user's code an exception was raised, as `" (file.py, line 3)"`.

    The innermost line that is neither of an installed package nor of Python itself, which would
    name a file that the user never saw; where there is no such line, the innermost of all.
    """
    own = theirs = ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        file = Path(frame.f_code.co_filename)
        if file.is_file() and file.parent != Path(__file__).parent:
            theirs = f" ({file.name}, line {number})"
            packaged = {"site-packages", "dist-packages"} & set(file.parts)
            if not packaged and not file.is_relative_to(sysconfig.get_path("stdlib")):
                own = theirs
    return own or theirs


@contextmanager
def lent(generator: torch.Generator | None) -> Iterator[None]:
    """Let torch's global generators continue from `generator` while the block runs.

    Without a generator nothing is done. Their states are put back as they were, and `generator`
    has moved on by one draw.
    """
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator))
    with random_states(seed):
        yield
