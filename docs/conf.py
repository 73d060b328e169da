"""Sphinx configuration. Pages with cells are run at every build, and an error in one ends it."""

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from sigmascope import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for `bands` and `kept`

project = "sigmascope"
author = "sigmascope contributors"
copyright = "2026, sigmascope contributors"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "bands",
    "kept",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
exclude_patterns = ["jupyter_execute", "_build", "generate.py", "bands.py", "kept.py"]

nb_execution_mode = "force"  # results kept from an earlier sigmascope would be stale
nb_execution_in_temp = True  # run files and checkpoints that cells write are thrown away
nb_execution_raise_on_error = True
nb_execution_show_tb = True  # of a cell that fails: its assertion is what one looks for
nb_execution_timeout = 600  # seconds, of one cell
nb_merge_streams = True
logging.getLogger("traitlets").setLevel(logging.WARNING)  # else each page is told as it is run
# Kernels inherit these. Each has one thread: two pages are run at a time. Settings of whoever
# builds the pages are left aside, and so is the warning that kernels speak to this machine alone.
kernels = tempfile.TemporaryDirectory()
settings = Path(kernels.name, "profile_default", "ipython_kernel_config.py")
settings.parent.mkdir()
settings.write_text("get_config().IPKernelApp.log_level = 40\n", encoding="utf-8")
os.environ["IPYTHONDIR"] = kernels.name
os.environ["MATPLOTLIBRC"] = str(HERE / "tutorials" / "matplotlibrc")
os.environ.setdefault("OMP_NUM_THREADS", "1")

default_role = "code"  # `this` in a docstring is code, as in Markdown
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_use_ivar = True  # attributes in one list; their types stand in the signature
napoleon_custom_sections = ["Cost", "Source"]
suppress_warnings = ["ref.python"]  # a name that two rooms re-export has two targets

# Formulas are set by MathJax from its CDN; without one, put `npm pack mathjax` into `_static` and
# build with -D mathjax_path=mathjax/tex-mml-chtml.js
html_theme = "furo"
html_title = "sigmascope"
html_static_path = ["_static"]
html_css_files = ["cells.css"]


def spread(_app: Any, _env: Any, names: list[str]) -> None:
    """Share out the tutorials among the processes, which take neighbours in this list."""
    names[:] = [name for start in range(4) for name in names[start::4]]


def setup(app: Any) -> None:
    """Called by Sphinx; another size of the tutorials is another build."""
    app.add_config_value("tutorials", os.environ.get("SIGMASCOPE_TUTORIALS", "full"), "env")
    app.connect("env-before-read-docs", spread)
