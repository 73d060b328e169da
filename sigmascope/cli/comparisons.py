"""`sigmascope compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sigmascope.cli.ends import finish
from sigmascope.cli.options import DEFAULT, Source, open_named, task
from sigmascope.cli.outputs import require_targets
from sigmascope.cli.ranges import Above, AtLeast, Count, Momentum

if TYPE_CHECKING:
    from sigmascope.survey import Comparison


def compare(
    before: Path,
    after: Path,
    /,
    *,
    model: str | None = None,
    source: Source = DEFAULT,
    learning_rate: Above = None,
    loss_drop: AtLeast = None,
    momentum: Momentum = 0.0,
    steps: Count = 1,
    whole: bool = False,
    json: str | None = None,
    strict: bool = False,
) -> int:
    """Say what changed between two checkpoints, and which balances held.

    Without a model the weights are compared by name. With one, both are measured on data, and the
    drift of every balance is judged if the learning rate and the fall of the loss are given.

    Example: sigmascope compare a.pt b.pt --model mlp --learning-rate 0.01 --loss-drop 1.8

    Args:
        before: A checkpoint: a state dict as `.pt` or `.safetensors`.
        after: Another of the same model.
        model: The model they belong to; as for `profile`.
        source: The data, and how to build the model.
        learning_rate: Of the steps between, the largest.
        loss_drop: How far the training loss fell between them.
        momentum: Of heavy-ball steps.
        steps: How many steps there were.
        whole: List everything.
        json: Write the comparison here as JSON; `-` for standard output, in place of the text.
        strict: End with exit code 1 if a balance is violated.
    """
    from sigmascope import diagnosis, gate, sources, survey

    require_targets(json=json, inputs=(before, after, *source.files))
    if model is None:
        if learning_rate is not None or loss_drop is not None:
            raise gate.Refusal(
                "`--learning-rate` and `--loss-drop` judge balances, which need `--model`: name "
                "the model that the checkpoints belong to."
            )
        found = survey.compare(sources.read_checkpoint(before), sources.read_checkpoint(after))
    else:
        judged = {"learning_rate": learning_rate, "loss_drop": loss_drop}
        training = {**judged, "momentum": momentum, "steps": steps}
        found = _of_model(model, source, (before, after), training)
    findings = diagnosis.rules.broken_balances(found.drifts)
    failed = strict and bool(findings)
    return finish(found, findings, json=json, failed=failed, printed={"whole": whole})


def _of_model(
    model: str,
    source: Source,
    files: tuple[Path, Path],
    training: dict[str, Any],
) -> "Comparison":
    from sigmascope import probes, sources, survey

    opened, data = open_named(model, source)
    states = []
    for file in files:
        twin = probes.execution.duplicate(opened.module)
        sources.load_checkpoint(twin, file)
        states.append(twin)
    return survey.compare(*states, batch=data.inputs, **task(data, source), **training)
