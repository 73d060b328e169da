"""`sigmascope remedy`."""

from dataclasses import replace
from pathlib import Path

from sigmascope.cli import outputs
from sigmascope.cli.options import (
    BUDGET,
    DEFAULT,
    Source,
    budget_of,
    family,
    open_named,
    seeded,
    task,
)
from sigmascope.cli.outputs import finish, refusing, require_targets
from sigmascope.cli.progress import progress_bar
from sigmascope.core.guard import memory


def remedy(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    apply: str | None = None,
    save: Path | None = None,
    json: str | None = None,
    plot: Path | None = None,
    budget: str = BUDGET,
) -> int:
    """Try remedies on a model, or apply one, and measure the result again.

    Without `--apply` every remedy that applies is tried on a copy, pairs of the best too where
    none is enough, and they are ranked by the probability that training will then fit, and by
    what they leave. With it the new profile is shown beside the old one, and `--save` keeps the
    weights. Twice `--samples` are read: remedies work with one half and are measured on the other.

    Examples:
        # which remedies help, the best first
        sigmascope remedy 'mlp?depth=32' --data digits

        # apply one of them and keep the weights
        sigmascope remedy 'mlp?depth=32' --data digits --apply batch-norm --save bn.pt

    Args:
        model: What to cure; as for `profile`.
        source: The data and weights.
        apply: Only this remedy, by name (`batch-norm`), two in turn (`unit-scale+batch-norm`), or
            `best`.
        save: Write the new weights here (a state dict, `.pt`).
        json: Write the results here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        budget: How long all may take, to within measuring the model and one remedy, e.g. `60s`,
            `10min`; what there is no time for is not tried, or gets no probability.
    """
    from sigmascope import diagnosis, sources
    from sigmascope.core import guard

    require_targets(save=save, json=json, plot=plot, inputs=source.files)
    if save is not None and apply is None:
        raise guard.Refusal("`--save` needs `--apply NAME`, or `--apply best`: what to save.")
    chosen = None  # which is all of them
    if apply not in (None, "best"):
        with refusing():
            chosen = (diagnosis.remedies.remedy(apply),)
    allowed = budget_of(budget)
    opened, data = open_named(model, replace(source, samples=2 * source.samples))
    # what is measured on, and other data for the remedies to work with
    data, other = (data, data) if source.batch_dim != 0 else sources.halves(data)
    with memory(source.memory), progress_bar() as progress:
        tried = diagnosis.trial(
            opened.module,
            data.inputs,
            remedies=chosen,
            batches=other.inputs,
            generator=seeded(source.seed),
            progress=progress,
            outputs=source.outputs,
            batch_dim=source.batch_dim,
            optimizer=family(source),
            budget=allowed,
            **task(data, source),
        )
    treatments, declined = tried
    if apply == "best" and treatments and not treatments[0].found_before:
        raise guard.Refusal(
            f"Nothing was found in `{model}` to cure: name the remedy, as in `--apply batch-norm`."
        )
    if not treatments and apply is not None:
        if len(declined) == 1 and not tried.untried:
            raise guard.Refusal(next(iter(declined.values())))
        late = f", for {len(tried.untried)} there was no time" if tried.untried else ""
        raise guard.Refusal(
            f"`--apply {apply}` needs a remedy that applies, got none: {len(declined)} do not"
            f"{late}. Without `--apply` it is said why; `--budget` allows more time."
        )
    if apply is None:
        try:
            effect = diagnosis.remedies.normalisation_effect(opened.module, data.inputs)
        except diagnosis.remedies.Inapplicable:
            effect = None
        return finish(replace(tried, normalisation=effect), json=json, plot=plot)
    tried = replace(tried, treatments=treatments[:1])
    code = finish(tried, json=json, plot=plot, shown=treatments[0])
    if tried.untried:
        outputs.note(
            f"The best of {len(treatments)}: for {len(tried.untried)} more the budget had no time; "
            "allow more, `--budget`."
        )
    if save is not None:
        treatment = treatments[0]
        how = f"load it with `--checkpoint {save}`"
        if not treatment.is_of_weights(opened.module, data.inputs):
            how = (
                "the model differs in more than its weights: `import torch, sigmascope as ss; "
                f"model = {diagnosis.remedies.in_code(treatment.remedy)}.apply(model, batch); "
                f"model.load_state_dict(torch.load({str(save)!r}))`, with a batch of inputs"
            )
        outputs.save(save, treatment.model.state_dict(), how=how)
    return code
