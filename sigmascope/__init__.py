"""Measures the singular values of deep networks and says what they mean.

`import sigmascope as ss` has the doors that most need (`ss.profile`, `ss.diagnose`, `ss.treat`) and
some rooms: `ss.diagnosis`, `ss.linalg`, `ss.networks`, `ss.models`, `ss.records`, `ss.report`,
`ss.survey` and `ss.theory`. Each is imported when it is first asked for; `__init__.pyi` lists them.
The other rooms are imported by name, as `from sigmascope import watching`.
"""

import difflib
import importlib.util
import random
import sys
from typing import Any

import lazy_loader

__version__ = "0.1.0"
_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __getattr__(name: str) -> Any:
    """A door or a room, imported when it is first asked for."""
    if name in __all__ or name.startswith("__"):
        state = random.getstate()  # of the script that asks: `rich` draws as it is imported
        try:
            return _loaded(name)
        finally:
            random.setstate(state)
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        guess = f" It is a room of its own: `from {__name__} import {name}`."
    else:
        near = difflib.get_close_matches(name, __all__, 1)
        guess = f" Did you mean `{near[0]}`?" if near else ""
    raise AttributeError(
        f"`{__name__}` has no `{name}`.{guess}", name=name, obj=sys.modules[__name__]
    )
