"""The diagnosis of a script as a figure."""

import math

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.scripts.diagnosing import Attempt, ScriptDiagnosis
from sigmascope.report.figures import COLOURS, Sheet, drawn, forest, legend, require_known, scaled
from sigmascope.report.several import Findings

MOST = 6  # interventions whose losses are drawn


@drawn.register
def _script(found: ScriptDiagnosis, sheet: Sheet, **more: object) -> None:
    """Losses of the script as it is and with one thing changed, those that helped most first."""
    require_known(more)
    loss = found.run.compared.loss or found.run.loss
    lines = [("as it is", loss.values)] if loss is not None and loss.values else []
    lines += [(a.says, a.values) for a in found.attempts if a.values][:MOST]
    if not lines:
        if not any(f.evidence for f in found.findings):
            raise Refusal(
                "No loss was seen in this script, and no finding rests on a number, so that there "
                "is nothing to draw. `print` shows what was found."
            )
        drawn(Findings(found.findings), sheet)
        return
    (ax,) = sheet.panels(1, height=2.6)
    scaled(ax, [v for _, values in lines for v in values])
    for place, (says, values) in enumerate(lines):
        finite = [v if math.isfinite(v) else math.nan for v in values]
        how = {"linewidth": 1.6} if place == 0 else {}
        colour = COLOURS[6] if place == 0 else COLOURS[(place - 1) % 6]
        ax.plot(range(1, len(finite) + 1), finite, color=colour, label=says, **how)
    ax.set(xlabel="backward pass", ylabel="loss")
    legend(ax)


@drawn.register
def _attempt(attempt: Attempt, sheet: Sheet, **more: object) -> None:
    """How much lower the loss ends."""
    require_known(more)
    forest(sheet, [(attempt.says, attempt.avoided)], label="share of the first loss avoided")
