"""The directive `shown`: Python that is run when the page is built, and what a notebook shows."""

import ast
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive


def evaluated(code: str, names: dict[str, Any]) -> Any:
    """The value of the last line, after all lines before it were run."""
    *before, last = ast.parse(code).body
    assert isinstance(last, ast.Expr), "a cell ends in what it shows"
    exec(compile(ast.Module(before, []), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


class Shown(Directive):
    """A cell; cells of one page share their names."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The code, and under it its result."""
        code = "\n".join(self.content)
        page = self.state.document.settings.env
        names = page.temp_data.setdefault("names of cells", {})
        html = evaluated(code, names)._repr_html_()
        shown = f'<div style="overflow-x: auto; font-size: .74em">{html}</div>'
        return [
            nodes.literal_block(code, code, language="python"),
            nodes.raw("", shown, format="html"),
        ]


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("shown", Shown)
    return {"parallel_read_safe": True}
