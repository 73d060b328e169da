"""Measures the singular values of deep networks and says what they mean.

`import sigmascope as ss` has the doors that most need (`ss.profile`, `ss.diagnose`, `ss.treat`) and
some rooms: `ss.diagnosis`, `ss.linalg`, `ss.networks`, `ss.probes`, `ss.records`, `ss.report`,
`ss.survey` and `ss.theory`. Each is imported when it is first asked for; `__init__.pyi` lists them.
The other rooms are imported by name, as `from sigmascope import watching`.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
