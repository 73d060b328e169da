"""A whole program: what is trained, on what, by what, for how long."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import nn

from sigmascope.core.guard import Refusal, came, door_of, listed, printable
from sigmascope.core.records import ByValue
from sigmascope.diagnosis.programs.lightning import parts_of
from sigmascope.diagnosis.programs.losses import LossSpec
from sigmascope.diagnosis.programs.optimizers import Recipe, Spec, recipe_of

LARGEST = 1e15  # of anything that is counted
OPTIONS = ("momentum", "weight_decay")  # of an optimizer, that stand beside it
WORDS = {"optimiser": "optimizer", "batch": "batch_size", "rate": "lr", "learning_rate": "lr"}


@door_of
@dataclass(frozen=True, repr=False, eq=False)
class Program(ByValue):
    """What a user trains, as a training script says it.

    Attributes:
        model: At its initial weights.
        data: A batch `(inputs, targets)`, a data set, or a loader.
        loss: A name, a function of output and targets, or a module; the one that fits the targets
            if not given.
        optimizer: A name of `torch.optim` in lower case, one that was made for the model, or a
            function that makes one of parameters; None if nothing is to be said of training.
        lr: The learning rate that goes with a name.
        batch_size: Samples in a step; that of the loader, else 32.
        epochs: For which training is planned.
        options: What else goes with the name of an optimizer: `momentum`, `weight_decay`, ….
        clip: Norm to which gradients are clipped.
        total: How many samples there are in all, where `data` are some of them.
        unread: What of a script could not be read, in words, and what stands in for it.
    """

    model: nn.Module
    data: Any
    loss: LossSpec | None = None
    optimizer: Spec | None = None
    lr: float | None = None
    batch_size: int | None = None
    epochs: float | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    clip: float | None = None
    total: int | None = None
    unread: str = ""

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "clip", "total"):
            value = getattr(self, name)
            if value is not None and not 0 < value < LARGEST:
                raise Refusal(
                    f"`{name}` must be above 0 and finite, got {came(value)}. Leave it out where "
                    "it is not known."
                )

    def recipe(self) -> Recipe | None:
        """How its optimizer is made again; None where it names none.

        Raises:
            Refusal: If there is none to which its options belong, or as `recipe_of`.
        """
        if self.optimizer is None:
            loose = [*(["lr"] if self.lr is not None else []), *self.options]
            if loose:
                raise Refusal(
                    f"{listed(loose)} must go with an optimizer, got none. Pass its name, as "
                    "`optimizer='adam'` (`--optimizer adam`), or leave it out."
                )
            return None
        return recipe_of(self.optimizer, self.model, self.lr, **self.options)

    def planned(self, total: int | None, size: int) -> int | None:
        """Steps of the whole training; None where it is not known how many."""
        total = self.total or total
        if self.epochs is None or total is None:
            return None
        return max(1, round(self.epochs * -(-total // size)))


def program_of(made: Any) -> Program:
    """A program as users write one down: this class, a mapping, a tuple, a trainer.

    Args:
        made: A `Program`; a mapping or an object with `model`, `data` and so on (`optimiser`,
            `batch` and `learning_rate` are taken for `optimizer`, `batch_size` and `lr`); a tuple
            `(model, data)`, `(model, data, loss)` or `(model, data, loss, optimizer)`; a Trainer of
            Hugging Face; a pair of a Lightning module and its data module.

    Raises:
        Refusal: If it is none of these, or names what is not known.
    """
    if isinstance(made, Program):
        return made
    if isinstance(made, Mapping):
        return _of_mapping(made)
    if hasattr(made, "model") and hasattr(made, "train_dataset") and hasattr(made, "args"):
        # a Trainer of Hugging Face; nothing of it is run
        args = made.args
        kind, options = made.get_optimizer_cls_and_kwargs(args)
        options = {k: v for k, v in options.items() if k != "optimizer_dict"}
        options.setdefault("weight_decay", args.weight_decay)
        steps = args.max_steps if args.max_steps and args.max_steps > 0 else None
        size = args.per_device_train_batch_size * args.gradient_accumulation_steps  # of an update
        epochs = steps * size / len(made.train_dataset) if steps else args.num_train_epochs
        return Program(
            made.model,
            made.get_train_dataloader(),
            getattr(made, "compute_loss_func", None),
            lambda parameters: kind(parameters, **options),
            batch_size=size,
            epochs=epochs,
            clip=args.max_grad_norm or None,
        )
    if isinstance(made, tuple) and len(made) == 2 and hasattr(made[1], "train_dataloader"):
        return Program(**parts_of(*made))
    if hasattr(made, "configure_optimizers") and hasattr(made, "train_dataloader"):
        return Program(**parts_of(made, made))
    if isinstance(made, tuple) and 2 <= len(made) <= 4:
        return Program(*made)
    if hasattr(made, "model") and hasattr(made, "data"):
        names = {f.name for f in fields(Program)} | {*WORDS, *OPTIONS}
        return _of_mapping({k: getattr(made, k) for k in names if hasattr(made, k)})
    do = "Call `diagnose(model, data, loss=..., optimizer=...)`, or pass one of these."
    if isinstance(made, nn.Module):
        do = "Pass its data beside it: `diagnose(model, (inputs, targets))`, or a loader."
    elif isinstance(made, str | Path):
        do = f"A script is run at the command line: `sigmascope diagnose {printable(str(made))}`."
    raise Refusal(
        "A program must be a mapping or an object with `model`, `data`, `loss`, `optimizer` and "
        "so on, a tuple of these, a Trainer, or a Lightning module with its data module; got "
        f"{came(made)}. {do}"
    )


def _of_mapping(made: Mapping[str, Any]) -> Program:
    known = {f.name for f in fields(Program)}
    named = {WORDS.get(k, k): v for k, v in made.items()}
    extra = {k: named.pop(k) for k in OPTIONS if k in named}
    unknown = sorted(set(named) - known)
    if unknown or not {"model", "data"} <= set(named):
        raise Refusal(
            f"A program has {', '.join(sorted(known.union(OPTIONS)))}, of which "
            f"`model` and `data` must be there; got {', '.join(map(str, made)) or 'nothing'}."
        )
    made_of = Program(**named)
    return replace(made_of, options={**made_of.options, **extra}) if extra else made_of
