"""The directive `kept`: a figure of a paper, drawn at each build from rows that are kept.

python docs/kept.py RESULTS     # keep the rows of a folder that `sigmascope reproduce` wrote
python docs/generate.py         # write docs/gallery.md again

Rows are kept as `sigmascope reproduce` wrote them, without checksums and versions of each, in
`docs/kept/PAPER-FIGURE.json.xz`; large ones with six digits of each number, if the claims come out
the same. Rows at the usual size take the place of those of a quick run, never the other way round;
those at the paper's size, from `RESULTS/PAPER/FIGURE-full`, are kept beside them.
"""

import json
import lzma
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from sigmascope_experiments import FIGURES, Claim
from sigmascope_experiments.figures import Config, Figure

HERE = Path(__file__).parent / "kept"
LARGE = 100_000  # bytes
DRAWN = "drawn"  # folder of the pictures in the pages that are built


def file_of(figure: Figure, *, full: bool = False) -> Path:
    """Where the rows of a figure are kept, at its usual size or at the paper's."""
    return HERE / f"{figure.name.replace('/', '-')}{'-full' * full}.json.xz"


def kept(figure: Figure, *, full: bool = False) -> dict[str, Any]:
    """`config`, `versions` and `rows` of a figure; nothing where none are kept."""
    file = file_of(figure, full=full)
    return json.loads(lzma.decompress(file.read_bytes())) if file.exists() else {}


def is_of(config: Config | None, found: dict[str, Any]) -> bool:
    """Whether the rows are of these sizes."""
    return config is not None and found["config"] == json.loads(json.dumps(dict(config)))


def claims(figure: Figure, *, full: bool = False) -> tuple[Claim, ...]:
    """What the kept rows show, computed again; nothing where none are kept."""
    found = kept(figure, full=full)
    return tuple(figure.claims(found["rows"], found["config"])) if found else ()


def keep(folder: Path) -> Iterator[str]:
    """Keep the rows of every figure in a folder of results, and say which."""
    for figure, end in product(FIGURES, ("", "-full")):
        file = folder / f"{figure.name}{end}" / "rows.jsonl"
        if not file.exists() or not (file.parent / "claims.json").exists():
            continue  # not run, or not to its end
        first, *rows = (json.loads(line) for line in file.read_text("utf-8").splitlines())
        config = {k: v for k, v in first["recipe"].items() if k != "figure"}
        found = {"config": config, "versions": _joined([r["versions"] for r in rows]), "rows": rows}
        full, before = is_of(figure.full, found), kept(figure)
        usual = is_of(figure.usual, found)
        if not full and not usual and before and is_of(figure.usual, before):
            continue
        for row in rows:
            row.pop("versions")
            row.pop("checksum", None)
        HERE.mkdir(exist_ok=True)
        packed = _packed(found)
        if len(packed) > LARGE:
            short = found | {"rows": _rounded(rows)}
            same = _verdicts(figure, short) == _verdicts(figure, found)
            packed = _packed(short) if same else packed
        file_of(figure, full=full).write_bytes(packed)
        yield f"{figure.name}{end}: {len(rows)} rows, {len(packed)} bytes"


def _joined(versions: list[dict[str, str]]) -> dict[str, str]:
    """What the rows were computed by, where it was not the same for all."""
    names = dict.fromkeys(name for one in versions for name in one)
    return {n: " and ".join(dict.fromkeys(v[n] for v in versions if n in v)) for n in names}


def _packed(found: dict[str, Any]) -> bytes:
    text = json.dumps(found, separators=(",", ":"))
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def _rounded(value: Any) -> Any:
    """The same with six digits of each number."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list) else value


def _verdicts(figure: Figure, found: dict[str, Any]) -> list[bool | None]:
    return [c.holds for c in figure.claims(found["rows"], found["config"])]


class Kept(Directive):
    """The picture of a figure; beside it that at the paper's size, where its rows are kept."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw it, and show it."""
        from matplotlib.figure import Figure as Canvas

        (figure,) = (f for f in FIGURES if f.name == self.arguments[0])
        folder = Path(self.state.document.settings.env.app.outdir) / DRAWN
        folder.mkdir(parents=True, exist_ok=True)
        shown = [full for full in (False, True) if kept(figure, full=full)]
        size = f'width="880" height="495" style="max-width: {100 // len(shown)}%; height: auto"'
        html = ""
        for full in shown:
            canvas = Canvas(figsize=(8, 4.5), layout="constrained", facecolor="white")
            figure.plot(kept(figure, full=full)["rows"], canvas)
            name = f"{figure.name.replace('/', '-')}{'-full' * full}.png"
            canvas.savefig(folder / name, dpi=110, facecolor="white")
            words = f"{figure.name}, reproduced{' at the size of the paper' * full}"
            html += f'<img src="{DRAWN}/{name}" alt="{words}" loading="lazy" {size}>'
        return [nodes.raw("", html, format="html")]


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("kept", Kept)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in keep(Path(sys.argv[1])))
