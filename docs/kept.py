"""The directive `kept`: a figure of a paper, drawn at each build from rows that are kept.

python docs/kept.py RESULTS     # keep the rows of a folder that `sigmascope reproduce` wrote
python docs/generate.py         # write docs/gallery.md again

Rows are kept as `sigmascope reproduce` wrote them, without checksums and versions of each, in
`docs/kept/PAPER-FIGURE.json.xz`; large ones with six digits of each number, if the claims come out
the same. Rows at full size take the place of those of a quick run, never the other way round.
"""

import json
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from sigmascope_experiments import FIGURES, Claim
from sigmascope_experiments.figures import Figure

HERE = Path(__file__).parent / "kept"
LARGE = 100_000  # bytes
DRAWN = "drawn"  # folder of the pictures in the pages that are built


def file_of(figure: Figure) -> Path:
    """Where the rows of a figure are kept."""
    return HERE / f"{figure.name.replace('/', '-')}.json.xz"


def kept(figure: Figure) -> dict[str, Any]:
    """`config`, `versions` and `rows` of a figure; nothing where none are kept."""
    file = file_of(figure)
    return json.loads(lzma.decompress(file.read_bytes())) if file.exists() else {}


def is_full(figure: Figure, found: dict[str, Any]) -> bool:
    """Whether the rows are of the figure's full size."""
    return found["config"] == json.loads(json.dumps(dict(figure.full)))


def claims(figure: Figure) -> tuple[Claim, ...]:
    """What the kept rows show, computed again."""
    found = kept(figure)
    return tuple(figure.claims(found["rows"], found["config"]))


def keep(folder: Path) -> Iterator[str]:
    """Keep the rows of every figure in a folder of results, and say which."""
    for figure in FIGURES:
        file = folder / figure.name / "rows.jsonl"
        if not file.exists() or not (file.parent / "claims.json").exists():
            continue  # not run, or not to its end
        first, *rows = (json.loads(line) for line in file.read_text("utf-8").splitlines())
        config = {k: v for k, v in first["recipe"].items() if k != "figure"}
        found = {"config": config, "versions": rows[0]["versions"], "rows": rows}
        before = kept(figure)
        if before and is_full(figure, before) and not is_full(figure, found):
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
        file_of(figure).write_bytes(packed)
        yield f"{figure.name}: {len(rows)} rows, {len(packed)} bytes"


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
    """The picture of a figure."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw it, and show it."""
        from matplotlib.figure import Figure as Canvas

        (figure,) = (f for f in FIGURES if f.name == self.arguments[0])
        found = kept(figure)
        canvas = Canvas(figsize=(8, 4.5), layout="constrained", facecolor="white")
        figure.plot(found["rows"], canvas)
        folder = Path(self.state.document.settings.env.app.outdir) / DRAWN
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{figure.name.replace('/', '-')}.png"
        canvas.savefig(folder / name, dpi=110, facecolor="white")
        size = 'width="880" height="495" style="max-width: 100%; height: auto"'
        words = f'alt="{figure.name}, reproduced" loading="lazy"'
        html = f'<img src="{DRAWN}/{name}" {words} {size}>'
        return [nodes.raw("", html, format="html")]


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("kept", Kept)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in keep(Path(sys.argv[1])))
