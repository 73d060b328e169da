"""How a user's optimizer is made again for a copy of the model, at another rate."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Optimizer

from sigmascope.core.guard import Refusal, nearest, told
from sigmascope.core.records import ByValue

CALM = 0.95  # momentum, up to which it is usual
PLAIN = ("sgd", "asgd")  # optimizers that take the gradient as it is
# torch's own; of others 1e-3
DEFAULT_RATES = {
    "sgd": 0.01, "adagrad": 0.01, "adadelta": 1.0, "rmsprop": 0.01, "rprop": 0.01, "lbfgs": 1.0,
    "adafactor": 0.01,
}  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Recipe(ByValue):
    """An optimizer, as it can be made for any copy of a model.

    Attributes:
        name: Of its class, in lower case.
        rate: The learning rate of its first group.
        options: What else its class was given.
    """

    name: str
    rate: float
    options: Mapping[str, Any] = field(default_factory=dict)
    _make: Callable[[nn.Module], Optimizer] | None = field(default=None, repr=False)

    @property
    def family(self) -> Literal["sgd", "adam"]:
        """Plain, or of Adam's kind, as all optimizers that adapt rates."""
        return family_of(self.name)

    def make(self, model: nn.Module) -> Optimizer:
        """The optimizer for a copy.

        Args:
            model: A copy of the user's model.

        Raises:
            Refusal: If nothing is trained.
        """
        trained = [p for p in model.parameters() if p.requires_grad]
        if not trained:
            raise Refusal("There must be parameters to train, got none that require gradients.")
        if self._make is not None:
            return self._make(model)
        return _class(self.name)(trained, lr=self.rate, **self.options)

    def at(self, times: float) -> "Recipe":
        """The same at other rates.

        Args:
            times: Factor of every learning rate.
        """
        make = self._make
        if make is None:
            return replace(self, rate=self.rate * times)

        def again(copy: nn.Module) -> Optimizer:
            made = make(copy)
            for group in made.param_groups:
                if "lr" in group:
                    group["lr"] = group["lr"] * times
            return made

        return replace(self, rate=self.rate * times, _make=again)

    def having(self, **values: Any) -> "Recipe":
        """The same with other values of an option in every group, where groups have it."""

        def again(copy: nn.Module) -> Optimizer:
            made = self.make(copy)
            for group in made.param_groups:
                group.update({k: v for k, v in values.items() if k in group})
            return made

        return replace(self, options={**self.options, **values}, _make=again)

    def of_all(self) -> "Recipe":
        """The same, with every parameter that requires gradients in it."""

        def again(copy: nn.Module) -> Optimizer:
            made = self.make(copy)
            held = {id(p) for g in made.param_groups for p in g["params"]}
            rest = [p for p in copy.parameters() if p.requires_grad and id(p) not in held]
            if rest:
                made.add_param_group({"params": rest})
            return made

        return replace(self, _make=again)

    def says(self) -> str:
        """E.g. `sgd at 0.01, momentum 0.9`."""
        told = "".join(f", {k} {v:g}" for k, v in self.options.items()
                       if isinstance(v, float | int) and not isinstance(v, bool) and v)  # fmt: skip
        return f"{self.name} at {self.rate:g}{told}"


def unusual_settings(optimizer: Optimizer) -> dict[str, Any]:
    """Numbers, but rate and weight decay, that are not as torch has them, and what is usual.

    Args:
        optimizer: Of torch; of others it is not known what is usual.
    """
    if not type(optimizer).__module__.startswith("torch.optim."):
        return {}
    found, group = dict[str, Any](), optimizer.param_groups[0]
    for name, asked in inspect.signature(type(optimizer).__init__).parameters.items():
        usual = asked.default
        if name in ("lr", "weight_decay") or type(usual) not in (int, float, tuple):
            continue
        if name == "momentum" and 0 <= group[name] <= CALM:
            continue
        usual = 0.9 if name == "momentum" else usual
        given = group.get(name, usual)
        if (tuple(given) if isinstance(usual, tuple) else given) != usual:
            found[name] = usual
    return found


def family_of(name: str | None) -> Literal["sgd", "adam"]:
    """At whose usual rates an optimizer is probed; Adam's where there is none."""
    return "sgd" if name in PLAIN else "adam"


Spec = str | Optimizer | Recipe | type[Optimizer] | Callable[[Iterator[nn.Parameter]], Optimizer]


def recipe_of(optimizer: Spec, model: nn.Module, lr: float | None, **options: Any) -> Recipe:
    """What makes the user's optimizer again.

    Args:
        optimizer: A name of `torch.optim` in lower case (`adam`, `sgd`, `rmsprop`), an optimizer
            that was made for the model, or a function that makes one of parameters.
        model: The user's.
        lr: The learning rate that goes with a name; torch's own where there is none.
        options: What else goes with a name: `momentum`, `weight_decay` and so on.

    Raises:
        Refusal: If there is no such optimizer, or it takes no such option.
    """
    if isinstance(optimizer, Recipe):
        return optimizer
    if isinstance(optimizer, type) and getattr(torch.optim, optimizer.__name__, None) is optimizer:
        optimizer = optimizer.__name__
    if isinstance(optimizer, str):
        name = optimizer.lower()
        kind = _class(name)
        takes = inspect.signature(kind).parameters
        unknown = sorted(set(options) - set(takes))
        if unknown:
            raise Refusal(
                f"`{name}` takes no {', '.join(unknown)}; it takes "
                f"{', '.join(k for k in takes if k not in ('params', 'lr'))}."
            )
        rate = DEFAULT_RATES.get(name, 1e-3) if lr is None else float(lr)
        if not rate >= 0 or rate == float("inf"):
            raise Refusal(f"The learning rate must be a number from 0, got {rate}.")
        return Recipe(name, rate, MappingProxyType(dict(options)))
    if lr is not None or options:
        raise Refusal(
            "A rate and options go with the name of an optimizer, got them beside one that has "
            "its own. Leave them out."
        )
    if isinstance(optimizer, Optimizer):
        # the same class with the same groups, of the copy's parameters, from a fresh state; one
        # that holds no parameter of the model, as where the model was made anew behind it, is made
        # again as it is: its steps change something else
        made = optimizer
        names = {id(p): name for name, p in model.named_parameters()}
        groups = [
            {**_begun(g), "params": [names[id(p)] for p in g["params"] if id(p) in names]}
            for g in optimizer.param_groups
        ]
        kind, defaults = type(optimizer), dict(optimizer.defaults)

        def again(copy: nn.Module) -> Optimizer:
            own = {n: p for n, p in copy.named_parameters() if p.requires_grad}
            mine = [{**g, "params": [own.pop(n) for n in g["params"] if n in own]} for g in groups]
            fresh = [p for n, p in own.items() if n not in names.values()]  # of a changed copy
            mine[0]["params"] += fresh
            elsewhere = {**mine[0], "params": [torch.zeros(1, requires_grad=True)]}
            mine = [g for g in mine if g["params"]] or [elsewhere]
            takes = inspect.signature(kind).parameters
            return kind(mine, **{k: v for k, v in defaults.items() if k in takes})

    else:
        maker: Any = optimizer
        try:
            made = maker(iter([p for p in model.parameters() if p.requires_grad]))
        except Refusal:
            raise
        except Exception as error:  # a user's function raises anything
            raise Refusal(
                f"`optimizer` must make an optimizer of the parameters it is called with, got "
                f"{told(error)}. Write e.g. `lambda parameters: torch.optim.SGD(parameters, 0.1)`."
            ) from error
        if not isinstance(made, Optimizer):
            raise Refusal(
                "`optimizer` must be a name, an optimizer, or a function that makes one of "
                f"parameters, got one that makes {type(made).__name__}."
            )
        again = lambda copy: maker(copy.parameters())
    rate = float(_begun(made.param_groups[0]).get("lr", float("nan")))
    return Recipe(type(made).__name__.lower(), rate, {}, again)


def _class(name: str) -> Callable[..., Optimizer]:
    kinds = {
        k.lower(): v
        for k, v in vars(torch.optim).items()
        if isinstance(v, type) and issubclass(v, Optimizer) and v is not Optimizer
    }
    if name not in kinds:
        raise Refusal(
            f"There is no optimizer `{name}`; there are {', '.join(sorted(kinds))}."
            f"{nearest(name, kinds)}"
        )
    return kinds[name]


def _begun(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group at the rate that a schedule starts from, where one has lowered it (a warm-up)."""
    own = {k: v for k, v in group.items() if k not in ("params", "initial_lr")}
    base = group.get("initial_lr")
    return own | {"lr": base} if base is not None and float(base) > float(own["lr"]) else own


def unfollowed(optimizer: Any, model: nn.Module) -> Iterator[tuple[str, str]]:
    """What of a user's own optimizer copies are trained without, and why, in words."""
    if not isinstance(optimizer, Optimizer):
        return
    bases = [float(g["initial_lr"]) for g in optimizer.param_groups if "initial_lr" in g]
    if bases:
        why = (
            f"copies are trained at the rate that it starts from, {max(bases):.3g}, for sigmascope "
            "sees the optimizer and not what changes its rate"
        )
        yield "schedule of the rate", why
    own = {id(p) for p in model.parameters()}
    held = [id(p) in own for g in optimizer.param_groups for p in g["params"]]
    if any(held) and not all(held):
        why = (
            f"{held.count(False)} weights of the optimizer are not the model's (a loss may have "
            "weights of its own), and copies are trained with these as they are: make them a part "
            "of the model if the program trains them"
        )
        yield "training of weights outside of the model", why
