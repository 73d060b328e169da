"""Run the tests on the oldest and on the newest pair of Python and torch.

python -m tests.release.pairs oldest|newest [--python INTERPRETER] [--torch REQUIREMENT] [-- ...]

`oldest` is the least Python of `requires-python`, with every dependency, and those of some extras,
at the version that `pyproject.toml` names as its least; `newest` the last Python among the
classifiers, with whatever pip takes now. Each has an environment of its own, kept in `.pairs/`. An
interpreter that is not there is a failure: what was asked for was not tested. What follows `--`
goes to pytest.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Tools of the tests, and programs that they read as users write them.
TOOLS = (
    "pytest>=8", "pytest-xdist>=3", "hypothesis>=6", "beartype>=0.19", "jsonschema>=4",
    "mpmath>=1.3", "matplotlib>=3.8", "gguf>=0.10", "aiohttp>=3.9", "transformers>=4.45",
    "peft>=0.13", "accelerate>=1", "lightning>=2.4", "tensorboard>=2.14",
    "sphinx>=8", "plotly>=6",
)  # fmt: skip
# Extras at their least, too: pip takes a new pyarrow beside an old NumPy, with which it does not
# even import.
EXTRAS = ("parquet", "frames", "remote")
# The shape checker is left out: it is ours and not the user's, and old compilers do not see
# through it. Warnings of old versions about themselves are theirs.
PYTEST = (
    "--no-shapes", "-m", "not slow", "-q", "-rfEs", "-p", "no:anyio",
    "-W", "ignore::FutureWarning:torch", "-W", "ignore:TypedStorage is deprecated:UserWarning",
    "-n", "2",
)  # fmt: skip


def least(requirements: Sequence[str]) -> list[str]:
    """`name==version` of every `name>=version`.

    Raises:
        ValueError: If a requirement names no least version.
    """
    found = []
    for requirement in requirements:
        match = re.match(r"([\w.-]+)>=([\d.]+)", requirement)
        if match is None:
            raise ValueError(f"A dependency needs a least version, got {requirement!r}.")
        found.append(f"{match[1]}=={match[2]}")
    return found


def pythons() -> list[str]:
    """The versions of Python that the package is for, the oldest first."""
    named = [re.fullmatch(r".*:: (3\.\d+)", line) for line in PROJECT["classifiers"]]
    return sorted((m[1] for m in named if m), key=lambda v: int(v.partition(".")[2]))


def requirements_of(pair: str, torch: str | None) -> list[str]:
    """What pip is asked for."""
    if pair == "oldest":
        own = [torch or p if p.startswith("torch==") else p for p in least(PROJECT["dependencies"])]
        extras = [p for name in EXTRAS for p in least(PROJECT["optional-dependencies"][name])]
        return [*own, *extras, *TOOLS]
    return [torch or "torch", "--editable", f"{ROOT}[dev,docs]"]


def interpreter(version: str, named: str | None) -> str:
    """The path of an interpreter of that version; ends with 1 where there is none."""
    path = shutil.which(named or f"python{version}")
    words = [path or "", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    said = subprocess.run(words, capture_output=True, text=True).stdout.strip() if path else ""
    if said != version:
        there = f"it is Python {said}" if said else "there is none"
        sys.exit(
            f"The pair needs Python {version} as `{named or f'python{version}'}`, but {there}: "
            "install it, or name it with `--python PATH`. Nothing was tested."
        )
    assert path is not None
    return path


def main(words: Sequence[str] | None = None) -> None:
    """Make the environment of one pair, say what is in it, and run the tests there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", choices=("oldest", "newest"))
    parser.add_argument("--python", help="the interpreter, if it is not on the path by its name")
    parser.add_argument("--torch", help="another requirement in the place of torch, for pip")
    parser.add_argument("tests", nargs="*", help="for pytest")
    asked = parser.parse_args(words)
    version = pythons()[0 if asked.pair == "oldest" else -1]
    base = interpreter(version, asked.python)
    place = ROOT / ".pairs" / asked.pair
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([base, "-m", "venv", place], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *requirements_of(asked.pair, asked.torch)], check=True)
    show = (
        "import platform, torch, numpy, scipy; print(platform.python_version(), *"
        "(f'{m.__name__} {m.__version__}' for m in (torch, numpy, scipy)))"
    )
    pair = subprocess.run([python, "-c", show], check=True, capture_output=True, text=True).stdout
    print(f"The {asked.pair} pair: Python {pair.strip()}", flush=True)
    found = {**os.environ, "PYTHONPATH": str(ROOT)}  # also by programs that run elsewhere
    words = [python, "-m", "pytest", *PYTEST, *asked.tests]
    code = subprocess.run(words, cwd=ROOT, env=found).returncode
    print(f"The {asked.pair} pair: Python {pair.strip()}: {'passed' if code == 0 else 'FAILED'}")
    sys.exit(code)


if __name__ == "__main__":
    main()
