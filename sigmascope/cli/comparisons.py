"""`sigmascope compare`."""

from pathlib import Path

from sigmascope.cli.options import (
    DEFAULT,
    Above,
    AtLeast,
    Count,
    Momentum,
    Source,
    open_named,
    task,
)
from sigmascope.cli.outputs import finish, require_targets


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
    plot: Path | None = None,
    strict: bool = False,
) -> int:
    """Say what changed between two checkpoints, and which balances held; or where two runs part.

    Of two run files, as `ss.watch` writes them, it says until which step they are bit for bit the
    same, which quantity at which layer first leaves what the runs' own step-to-step variation
    explains and what followed, and which settings, alarms and last losses differ. Of checkpoints:
    without a model the weights are compared by name. With one, both are measured on data, and the
    drift of every balance is judged if the learning rate and the fall of the loss are given.

    Examples:
        # two checkpoints of one network
        sigmascope compare before.pt after.pt --model net.py:build --data set.npz

        # where two runs part
        sigmascope compare first.run second.run

    Args:
        before: A checkpoint: a state dict as `.pt` or `.safetensors`. Or a run file.
        after: Another of the same model, or another run file.
        model: The model they belong to; as for `profile`.
        source: The data, and how to build the model.
        learning_rate: Of the steps between, the largest.
        loss_drop: How far the training loss fell between them.
        momentum: Of heavy-ball steps.
        steps: How many steps there were.
        whole: List everything.
        json: Write the comparison here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        strict: End with exit code 1 if a balance is violated, or two runs part.
    """
    from sigmascope import sources, theory
    from sigmascope.core import guard, store

    require_targets(json=json, plot=plot, inputs=(before, after, *source.files))
    if any(kinds := [store.is_run(file) for file in (before, after)]):
        judged = (model, learning_rate, loss_drop) != (None,) * 3 or source != DEFAULT
        if judged or not all(kinds):
            if all(kinds):
                raise guard.Refusal(
                    "Two runs are compared by what is filed in them, and "
                    f"{before} and {after} are run files: leave `--model`, the data and the "
                    "learning rate out."
                )
            run, other = (before, after) if kinds[0] else (after, before)
            what = "none" if other.exists() else "not there"
            raise guard.Refusal(
                f"Two run files or two checkpoints can be compared; {run} is a run file and "
                f"{other} is {what}. Name another run, or two checkpoints."
            )
        from sigmascope import watching

        with store.Run(before, write=False) as first, store.Run(after, write=False) as second:
            parting = watching.part(first, second)
        failed = strict and bool(parting.parted)
        return finish(parting, json=json, plot=plot, failed=failed, printed={"whole": whole})
    if model is None:
        if learning_rate is not None or loss_drop is not None:
            raise guard.Refusal(
                "`--learning-rate` and `--loss-drop` judge balances, which need `--model`: name "
                "the model that the checkpoints belong to."
            )
        found = theory.compare(sources.read_checkpoint(before), sources.read_checkpoint(after))
    else:
        from sigmascope import models

        judged = {"learning_rate": learning_rate, "loss_drop": loss_drop}
        training = {**judged, "momentum": momentum, "steps": steps}
        opened, data = open_named(model, source)
        states = []
        for file in (before, after):
            twin = models.state.duplicate(opened.module)
            sources.load_checkpoint(twin, file)
            states.append(twin)
        found = theory.compare(*states, batch=data.inputs, **task(data, source), **training)
    findings = theory.le2022.conservation.broken_balances(found.drifts)
    failed = strict and bool(findings)
    return finish(found, findings, json=json, plot=plot, failed=failed, printed={"whole": whole})
