"""Measures the singular values of deep networks and says what they mean.

`import sigmascope as ss` has the doors of every room (`ss.profile`, `ss.diagnose`, `ss.treat`) and
the rooms (`ss.linalg`). Each is imported when it is first asked for; `__init__.pyi` lists them.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
