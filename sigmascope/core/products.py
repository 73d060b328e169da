"""What sigmascope is made of: for each kind of thing that declares itself, the modules that do.

What all stands on and the products (`survey`, `diagnosis`, `watching`, `scanning`, `theory`) know
one another by this list alone, where one needs what others bring: the views of a profile, the
theorems that it checks, what a watch may read, how a result looks. A module is imported when it is
first asked for, so that what nobody needs is never loaded. To add a thing is to write its module
and one line here.
"""

import random
from functools import cache
from importlib import import_module
from types import ModuleType

# Each declares a `VIEW` of a profile: its name, and what it reads of a model.
VIEWS = (
    "sigmascope.survey.views.representations",
    "sigmascope.survey.views.weights",
    "sigmascope.survey.views.features",
    "sigmascope.survey.views.gradients",
    "sigmascope.survey.views.setup",
    "sigmascope.theory.views.balances",
    "sigmascope.theory.views.bottleneck",
    "sigmascope.theory.views.conditioning",
)
# Each lists in `KINDS` what may be found of a model or a program, and the `RULES` that find it.
FINDINGS = (
    "sigmascope.diagnosis.rules.catalogue",
    "sigmascope.diagnosis.scripts.rules",
    "sigmascope.theory.le2022.conservation.broken",
)
# The same of a checkpoint.
CHECKPOINT_FINDINGS = ("sigmascope.diagnosis.checkpoints",)
# Each lists in `REMEDIES` changes of a network, and in `CHANGES` changes of a program.
REMEDIES = ("sigmascope.diagnosis.remedies.catalogue",)
CURES = ("sigmascope.diagnosis.cures.changes",)
# Each lists in `RULES` the alarms of a watch.
ALARMS = ("sigmascope.watching.alarms.rules",)
# Each lists theorems in `OF_MODELS`, which a profile checks, and all that there are in `THEOREMS`.
THEOREMS = ("sigmascope.theory.catalogue",)
# Each lists in `STATEMENTS` what papers say by number, and what is made of it.
STATEMENTS = ("sigmascope.theory.statements",)
# Each declares as its `PROBE` what a watch reads of a probe batch besides profiles.
FOLLOWED = ("sigmascope.theory.le2022.conservation.watching",)
# Each registers, with the functions of `report`, how results look; what costs least stands first.
PRESENTATIONS = (
    "sigmascope.scanning.presentation",
    "sigmascope.watching.presentation",
    "sigmascope.diagnosis.presentation",
    "sigmascope.diagnosis.scripts.presentation",
    "sigmascope.diagnosis.scaling.presentation",
    "sigmascope.theory.presentation",
)
SHOWS = "sigmascope.report"  # what results ask to be shown


def report() -> ModuleType:
    """What results ask to be shown, imported when something is."""
    (shows,) = modules((SHOWS,))
    return shows


@cache
def modules(names: tuple[str, ...]) -> tuple[ModuleType, ...]:
    """The modules of one of these lists, imported."""
    state = random.getstate()  # of the script that asks: `rich` draws as it is imported
    try:
        return tuple(import_module(name) for name in names)
    finally:
        random.setstate(state)
