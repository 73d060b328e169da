"""`sigmascope widths`."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from sigmascope.cli.options import LARGEST, AtLeast, Count, Loss, loss_of, seeded
from sigmascope.cli.outputs import finish, require_targets, wrote
from sigmascope.cli.progress import STATUS, progress_bar

Steps = Annotated[int, Parameter(validator=Number(gte=0, lte=LARGEST))]
Sizes = Annotated[list[int] | None, Parameter(consume_multiple=1, validator=Number(gte=1))]


def widths(
    make: str,
    /,
    *,
    widths: Sizes = None,
    depths: Sizes = None,
    field: str | None = None,
    data: str | None = None,
    samples: Count = 256,
    folder: Path | None = None,
    loss: Loss = None,
    optimizer: str = "adam",
    lr: AtLeast = None,
    momentum: AtLeast = None,
    weight_decay: AtLeast = None,
    batch: Count | None = None,
    steps: Count = 3,
    seeds: Count | None = None,
    cure: bool = False,
    transfer: Steps = 0,
    html: Path | None = None,
    json: str | None = None,
    plot: Path | None = None,
    strict: bool = False,
) -> int:
    """Say whether what was tuned on a small model holds for a large one, and what is in the way.

    MAKE is `file.py:make` or `package.module:make`, a function of a width (or of a depth) that
    gives a model; or a model and its optimizer (or a list of optimizers), or a whole program as for
    `diagnose`; or a `config.json` of Transformers, with `--field`. Models of each width take a few
    steps from several seeds. For each weight: by which power of width
    what its change does grows or fades, a verdict, who is to blame, and a cure as lines to paste.

    Examples:
        # a network of yours at four widths, with Adam at the rate that you tuned
        sigmascope widths net.py:build --data set.npz --lr 1e-3

        # the same with depth, and a page of it
        sigmascope widths net.py:deep --depths 2 4 8 --data set.npz --html deep.html

    Args:
        make: What makes a model of a width.
        widths: Two or more; 64, 128, 256 and 512 if not given. A factor of 8 tells most.
        depths: Two or more, in the place of widths.
        field: What the width (or depth) of a configuration is called; others after a comma grow in
            proportion.
        data: As for `profile`; guessed from the first layer where it can be. Not where MAKE gives a
            program with its own.
        samples: How many samples of the data to take.
        folder: Where Fashion-MNIST and CIFAR-10 lie.
        loss: What the output is compared with the targets by.
        optimizer: One of torch's, where MAKE gives none.
        lr: Its learning rate; torch's own if not given.
        momentum: Its momentum.
        weight_decay: Its weight decay.
        batch: Samples in a step; 32 if nobody says.
        steps: Of training each model.
        seeds: Of initial weights, for each width; 3 if not given, 6 with depths.
        cure: Change initial weights and rates of copies by the powers that were found, and measure
            again.
        transfer: Try nine rates for so many steps each at the smallest and the largest width, and
            say whether the best one stays.
        html: Write a page here.
        json: Write the numbers here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        strict: End with exit code 1 if something stands in the way.
    """
    from torch import nn

    from sigmascope import sources
    from sigmascope.core import guard
    from sigmascope.diagnosis import scaling
    from sigmascope.sources import callables
    from sigmascope.sources.huggingface import open_config

    require_targets(html=html, json=json, plot=plot, inputs=(data,))
    config = Path(make)
    is_config = any(
        p.name == "config.json" and p.is_file() for p in (config, config / "config.json")
    )
    if not is_config and not callables.is_callable_spec(make):
        raise guard.Refusal(
            f"`{make}` must be `file.py:make` or `package.module:make`: a function of a width that "
            "gives a model, for sigmascope cannot make yours wider; or a `config.json` of "
            "Transformers, with `--field` for what its width is called."
        )
    STATUS(f"opening {make}", 0, 0)
    own = {"momentum": momentum, "weight_decay": weight_decay}
    options: dict[str, Any] = {k: v for k, v in own.items() if v is not None}
    named = {"depths": depths, "field": field.split(",") if field else None}
    source = nullcontext(open_config(config)) if is_config else callables.named(make)
    with source as function, progress_bar() as progress:
        family = scaling.family_of(function, widths=widths, **named)
        found = None
        if data is not None:
            found = sources.open_data(data, samples=samples, folder=folder, generator=seeded(0))
        elif isinstance(first := family.at(family.sizes[0]), nn.Module):
            found = sources.default_data(first, samples=samples)  # as for `profile`
        result = scaling.widths(
            function,
            widths,
            found,
            loss=None if loss is None else loss_of(loss),
            optimizer=optimizer,
            lr=lr,
            steps=steps,
            seeds=seeds,
            batch_size=batch,
            cure=cure,
            transfer=transfer,
            progress=progress,
            **named,
            **options,
        )
    if html is not None:
        wrote(scaling.widths_page(result, html))
    return finish(result, json=json, plot=plot, failed=strict and bool(result.obstacles))
