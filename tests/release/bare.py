"""Build what is released, look into it, and use it where nothing else is installed.

python -m tests.release.bare [--torch REQUIREMENT]

The wheel goes into an empty environment without extras; there every command shows its help, a
network is profiled, and the package is imported, far from the source.
"""

import argparse
import fnmatch
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 1.5e6  # bytes of a wheel
WHEEL = ("sigmascope/*", "sigmascope_experiments/*", "sigmascope-*.dist-info/*")
SOURCE = (  # of the folder that an archive unpacks to
    "sigmascope/*", "sigmascope_experiments/*", "README.md", "CHANGELOG.md", "CITATION.cff",
    "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore",
)  # fmt: skip
NEVER = (  # wherever they lie
    "*/tests/*", "*test_*.py", "*.log", "*.npz", "*.npy", "*.pt", "*.safetensors", "*.parquet",
    "*.run", "*.pyc", "*.csv", "*-ubyte*",
)  # fmt: skip
NEEDED = (  # read where it runs
    "sigmascope/py.typed", "sigmascope/__init__.pyi",
    "sigmascope/core/references.csv",
)  # fmt: skip
ASK = (
    "from sigmascope.cli import COMMANDS, UNDER\n"
    "for c in COMMANDS:\n"
    "    print(c.__name__)\n"
    "    for b in UNDER.get(c.__name__, ()): print(c.__name__, b.__name__)\n"
)


def names_in(archive: Path) -> list[str]:
    """Files of a wheel or of a source archive, the latter's without its folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as held:
            return held.namelist()
    with tarfile.open(archive) as held:
        return [m.name.partition("/")[2] for m in held.getmembers() if m.isfile()]


def faults(archive: Path) -> list[str]:
    """What is wrong with an archive, a line each: what should not be in it, what is missing, size.

    Args:
        archive: A wheel or a `.tar.gz`.
    """
    names = names_in(archive)
    allowed = WHEEL if archive.suffix == ".whl" else SOURCE
    matches = lambda name, patterns: any(fnmatch.fnmatch(name, p) for p in patterns)
    found = [f"{n} is none of what is released" for n in names if not matches(n, allowed)]
    others = [n for n in names if n not in NEEDED]
    found += [f"{n} is a test, a log or data" for n in others if matches(f"/{n}", NEVER)]
    found += [f"{n} is missing" for n in NEEDED if n not in names]
    size = archive.stat().st_size
    if archive.suffix == ".whl" and size > MOST:
        found.append(f"it has {size / 1e6:.2f} MB, more than {MOST / 1e6:g}")
    return found


def ran(*words: str | Path, at: Path) -> str:
    """The output of a command that must end well."""
    done = subprocess.run([str(w) for w in words], cwd=at, capture_output=True, text=True)
    if done.returncode:
        line = " ".join(map(str, words))
        sys.exit(f"`{line}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def used(wheel: Path, torch: str, place: Path) -> int:
    """Install a wheel into an empty environment and use it; how many commands there are."""
    venv.create(place / "venv", with_pip=True)
    python = place / "venv" / "bin" / "python"
    ran(python, "-m", "pip", "install", "-q", "--no-compile", torch, at=place)  # a CPU build
    ran(python, "-m", "pip", "install", "-q", "--no-compile", wheel, at=place)
    ran(python, "-c", "import sigmascope; sigmascope.profile", at=place)
    tool = place / "venv" / "bin" / "sigmascope"
    commands = [line.split() for line in ran(python, "-c", ASK, at=place).splitlines()]
    for words in commands:
        assert "Examples" in ran(tool, *words, "--help", at=place), words
    said = ran(
        tool, "profile", "mlp?depth=8&width=32", "--data", "digits", "--no-fit",
        "--html", "page.html", at=place,
    )  # fmt: skip
    assert said.startswith("Measured 9 of 9 layers"), said
    assert (place / "page.html").stat().st_size > 10_000
    return len(commands)


def main(words: Sequence[str] | None = None) -> None:
    """Everything in turn; ends with 1 and the reason where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default="torch", help="which torch to install, for pip")
    torch = parser.parse_args(words).torch
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        ran(sys.executable, "-m", "build", "--outdir", place, ROOT, at=place)
        wheel, source = *place.glob("*.whl"), *place.glob("*.tar.gz")
        for archive in (wheel, source):
            print("\n".join(sorted(names_in(archive))))
            print(f"{archive.name}: {archive.stat().st_size / 1e6:.2f} MB")
            if wrong := faults(archive):
                sys.exit("\n".join((f"{archive.name}:", *wrong)))
        count = used(wheel, torch, place)
        print(f"{wheel.name} in an empty environment: {count} commands, one profile, one page.")


if __name__ == "__main__":
    main()
