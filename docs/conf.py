"""Sphinx configuration."""

import sys
from pathlib import Path

from sigmascope import __version__

sys.path.insert(0, str(Path(__file__).parent))  # for `shown`

project = "sigmascope"
author = "sigmascope contributors"
copyright = "2026, sigmascope contributors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "shown",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
exclude_patterns = ["_build", "generate.py", "shown.py"]

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
