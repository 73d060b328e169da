"""Differentiating a model: a second time, without dropout, and by what balances are told from."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.overrides import TorchFunctionMode

from sigmascope.core.guard import Refusal
from sigmascope.models.layers import NORMALISERS, called, explaining, plain
from sigmascope.models.samples import Batch, Loss, as_tensor, beside, prepared, tensors
from sigmascope.models.state import alive, still, uses_batch_statistics
from sigmascope.models.tape import backward, gradient_turns, large

Parts = Sequence[Tensor | None]  # of a vector, one for each tensor; None for zeros


@contextmanager
def differentiable_twice(model: nn.Module) -> Iterator[None]:
    """Hold a model still on a tape that can be differentiated again, also after the block.

    Raises:
        Refusal: If autograd cannot, with its words.
    """
    with tape_kept(model), explaining(), along_the_tape(), _ByHand():
        yield


@contextmanager
def tape_kept(model: nn.Module) -> Iterator[None]:
    """Hold a model still, parts of which may be computed again for a tape that there is."""
    with still(model):
        for module in model.modules():
            if uses_batch_statistics(module):
                # updated in place otherwise, which would spoil the tape that refers to them
                module._buffers.update(dict.fromkeys(("running_mean", "running_var")))
        yield


@contextmanager
def along_the_tape() -> Iterator[None]:
    """Differentiate, by kernels that can be differentiated again."""
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        yield


def pushforward(
    outputs: Tensor, inputs: Sequence[Tensor]
) -> Callable[[Sequence[Tensor]], Tensor | None]:
    """`J v`, `J` the derivative of the outputs by the inputs, as that of `Jᵀ u` by `u`.

    None where `Jᵀ` depends on nothing.
    """
    u = torch.zeros_like(outputs, requires_grad=True)
    with torch.enable_grad():
        pulled = torch.autograd.grad(outputs, inputs, u, create_graph=True, allow_unused=True)
    return lambda v: again(pulled, [u], v)[0]


def again(slopes: Parts, by: Sequence[Tensor], cotangents: Sequence[Tensor]) -> Parts:
    """The derivative of `Σ ⟨slope, cotangent⟩`, where slopes still depend on anything."""
    there = [
        (s, c) for s, c in zip(slopes, cotangents, strict=True) if s is not None and s.requires_grad
    ]
    if not there:
        return [None] * len(by)
    found, given = zip(*there, strict=True)
    return torch.autograd.grad(found, by, given, retain_graph=True, allow_unused=True)


def joined(parts: Parts, like: Sequence[Tensor]) -> Float[Tensor, " n"]:
    """The parts as one vector, with zeros for those that are not there."""
    pairs = zip(parts, like, strict=True)
    # still on the tape
    return torch.cat(
        [
            (
                torch.zeros_like(p)
                if g is None
                else (g if g.layout == torch.strided else g.to_dense())
            ).reshape(-1)
            for g, p in pairs
        ]
    )


class _ByHand(TorchFunctionMode):
    """Weight normalisation from its parts: its fused form has a wrong second derivative on CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") == "_weight_norm":
            v, g, dim = (*args, *(kwargs or {}).values())
            return v * (g / torch.norm_except_dim(v, 2, dim))
        return func(*args, **(kwargs or {}))


# ------------------------------------------------------------------------------
# What dropout takes away while a model trains.


FUNCTIONS = frozenset(
    f"{kind}dropout{dims}" for kind in ("", "feature_") for dims in ("", "1d", "2d", "3d")
)


@dataclass(slots=True)
class Dropped:
    """One place where numbers are dropped.

    Attributes:
        site: The module that is run there.
        before: Numbers that were not zero.
        after: Those of them that are zero then.
    """

    site: str
    before: int
    after: int

    @property
    def share(self) -> float:
        """Of the numbers that were not zero, those that are dropped."""
        return self.after / self.before


class _Watch(TorchFunctionMode):
    """Counts zeros before and after every call of dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = [""]
        self.sums: dict[str, Dropped] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        x = args[0] if args else kwargs.get("input")
        if getattr(func, "__name__", "") not in FUNCTIONS or not isinstance(x, Tensor):
            return func(*args, **kwargs)
        there = x != 0
        out = func(*args, **kwargs)  # what one kind of dropout calls in turn is not watched
        if isinstance(out, Tensor) and out.shape == there.shape and bool(there.any()):
            site = self.inside[-1]
            place = self.sums.setdefault(site, Dropped(site, 0, 0))
            place.before += int(there.sum())
            place.after += int((there & (out == 0)).sum())
        return out


@contextmanager
def watching_dropout(model: nn.Module) -> Iterator[dict[str, Dropped]]:
    """What share of the numbers each call of dropout sets to zero, counted in the runs inside.

    Args:
        model: Whose modules name the places; left as it was found.

    Yields:
        By the module in which it happens, in the order of the first call, when the runs are done.
        Dropout inside of fused layers (attention, recurrent ones) cannot be seen.
    """
    watch = _Watch()

    def leave(*_: Any) -> None:
        watch.inside.pop()

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            enter = lambda *_, name=name: watch.inside.append(name)
            hooks.callback(module.register_forward_pre_hook(enter).remove)
            hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
        with watch:
            yield watch.sums


def dropped(model: nn.Module, *batches: Batch) -> tuple[Dropped, ...]:
    """What dropout takes away in training mode.

    Args:
        model: Left as it was found, random states too.
        batches: What it is run on, one after the other.

    Returns:
        As `watching_dropout` has it.

    Cost: one forward pass of each.
    """
    with still(model), torch.no_grad():
        model.train()
        with watching_dropout(model) as places:
            for batch in batches:
                called(model, batch)
    return tuple(places.values())


# ------------------------------------------------------------------------------
# The gradient that balances are measured with: of the loss, or of a random sum of the outputs.


Pull = Literal["loss", "reweighted", "random"]
T = TypeVar("T")


def trial_gradients(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any = None,
    loss: Loss | None = None,
    pull: Pull = "loss",
    nudge: float = 0.0,
    signs: int = 0,
    fused: bool = False,
    generator: torch.Generator | None = None,
) -> Iterator[tuple[str, Tensor]]:
    """Gradient in every trained parameter, in the model's own modes; zero where it has none.

    One after another, with their names: where all together are large for the memory allowed, some
    are made at a time, so that whoever keeps none needs no room for all.

    Args:
        model: Left as it was found.
        batch: As for `Subject`.
        targets: What `loss` compares the output with.
        loss: Without it, the outputs are summed with independent normal weights: what is conserved
            for every loss is conserved for this one.
        pull: `"loss"`: its gradient. `"reweighted"`: that at modest outputs, with an independent
            normal weight for every sample, so that neither samples nor a saturated loss cancel
            where training has converged. `"random"`: as without a loss.
        nudge: Relative size of random changes of the parameters, made for this run alone: what
            they move the gradient by tells how much of it is rounding.
        signs: How many samples there are: what each of them contributes, at every layer, gets a
            random sign, and normalisers take nothing out, so that nothing cancels. The sum is no
            gradient, and as large as what was added up. 0 for the gradient itself.
        fused: Whether attention may take a fused kernel, which holds no scores of all pairs.
        generator: Draws the weights; a fixed one of its own if not given.

    Raises:
        Refusal: If the model has no gradient.

    Cost: a pass forward, and one back for each eighth of the memory allowed that gradients fill.
    """
    task = {"targets": targets, "loss": loss, "pull": pull, "nudge": nudge, "signs": signs}
    with _trial(model, batch, **task, fused=fused, generator=generator) as (scalar, leaves):
        names = iter(leaves)
        for some, last in gradient_turns(leaves.values()):
            with _explained(model):
                grads = [
                    *torch.autograd.grad(
                        scalar,
                        some,
                        retain_graph=not last,
                        allow_unused=True,
                        materialize_grads=True,
                    )
                ]
            while grads:  # none is held while the next ones are made
                yield next(names), plain(grads.pop(0))


class Untaped(Refusal):
    """No weight has a gradient, for the loss was not computed from any of them by autograd."""


def reduced_gradients(
    model: nn.Module,
    batch: Batch,
    of: Callable[[str, Tensor], T],
    *,
    targets: Any = None,
    loss: Loss | None = None,
    fused: bool = False,
) -> dict[str, T]:
    """What is asked of the gradient in every trained parameter, which is held no longer than that.

    Args:
        model: As for `trial_gradients`, with what follows.
        batch: What it is run on.
        of: Of a parameter's name and its gradient, which it must not keep unless it copies it.
        targets: What `loss` compares the output with.
        loss: Without it, the outputs are summed with independent normal weights.
        fused: Whether attention may take a fused kernel.

    Raises:
        Untaped: If no weight is on the tape.
        Refusal: If the model has no gradient.

    Cost: a pass forward and one back.
    """
    found: dict[str, T] = {}
    with _trial(model, batch, targets=targets, loss=loss, fused=fused) as (scalar, leaves):
        names = {id(p): name for name, p in leaves.items()}
        if not scalar.requires_grad:
            raise Untaped(
                f"`model` must be one that can be trained, got {type(model).__name__}, from whose "
                "loss autograd finds no way back to any weight. Look in its forward pass and in "
                "the loss for `no_grad`, `detach`, `.data` or NumPy."
            )

        def take(p: Tensor, grad: Tensor) -> None:
            found[names[id(p)]] = of(names[id(p)], plain(grad))

        with _explained(model):
            backward(scalar, None, [*leaves.values()], take, large=large())
        for name, p in leaves.items():  # those that the loss ignores
            if name not in found:
                found[name] = of(name, plain(torch.zeros_like(p)))
        return {name: found[name] for name in leaves}


@contextmanager
def _trial(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any,
    loss: Loss | None,
    pull: Pull = "loss",
    nudge: float = 0.0,
    signs: int = 0,
    fused: bool,
    generator: torch.Generator | None = None,
) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """What is differentiated in a trial, and by what, by name; as for `trial_gradients`."""
    learnable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    generator = generator or torch.Generator().manual_seed(0)
    with alive(model, fused=fused), _signed(model, signs):
        run, leaves = model, dict[str, Tensor](learnable)
        if nudge:  # the model with other parameters, for this call alone
            seed = int(nudge * 2.0**62) % 2**31  # another draw for every size
            draw = partial(_drawn, generator=torch.Generator().manual_seed(seed))
            leaves = {
                n: (p.detach() * (1 + nudge * draw(p))).requires_grad_()
                for n, p in learnable.items()
            }
            # what is done to the gradient of a parameter is done to that of its stand-in
            for name, p in learnable.items():
                for hook in (p._backward_hooks or {}).values():  # has no public name
                    leaves[name].register_hook(hook)
            run = lambda *args, **named: functional_call(model, leaves, args, named)
        out = called(model, prepared(model, batch), run=run)
        drawn, targets = partial(_drawn, generator=generator), beside(model, targets)
        if loss is None or targets is None or pull == "random":
            floating = [t for t in tensors(out) if t.is_floating_point() and t.requires_grad]
            scalar = sum(((t * drawn(t)).sum() for t in floating), torch.zeros(()))
        elif pull == "loss":
            scalar = loss(as_tensor(out)[0], targets)
        else:
            scalar = _reweighted(as_tensor(out)[0], targets, loss, drawn)
        del out
        yield scalar, leaves


@contextmanager
def _explained(model: nn.Module) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise Refusal(
            f"`model` must be one that can be trained, got {type(model).__name__}, of which "
            f"autograd says: {' '.join(str(error).split())[:200]} Correct its forward pass "
            "first."
        ) from error


@contextmanager
def _signed(model: nn.Module, count: int) -> Iterator[None]:
    """Random signs for the rows of every gradient that a layer receives, if there are samples."""
    g = torch.Generator().manual_seed(2)
    signs = 1.0 - 2.0 * torch.randint(2, (count,), generator=g)

    def turn(module: nn.Module, args: Any, out: Any) -> Any:
        if isinstance(module, NORMALISERS) and isinstance(out, Tensor):
            # what a normaliser writes, with a gradient as large as if it only divided by the
            # spread: its derivative takes out what would scale and shift its input, which may be
            # all of the gradient
            x = args[0]
            axes = tuple(range(2 if isinstance(module, _InstanceNorm) else 1, x.ndim))
            if isinstance(module, _BatchNorm):
                axes = (0, *range(2, x.ndim))
            gone = (x - x.mean(axes, keepdim=True)).detach().norm()
            out = out + (out.detach().norm() / gone).nan_to_num(0, 0) * (x - x.detach())
        for t in tensors(out):
            if t.requires_grad and t.ndim and len(t) == count:
                shaped = signs.reshape(-1, *[1] * (t.ndim - 1))
                t.register_hook(lambda grad, shaped=shaped: grad * shaped.to(grad))
        return out

    leaves = [m for m in model.modules() if count and not list(m.children())]
    with ExitStack() as undo:
        for module in leaves:
            undo.callback(module.register_forward_hook(turn).remove)
        yield


def _drawn(like: Tensor, *, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator).to(like.device, like.dtype)


def _reweighted(out: Tensor, targets: Any, loss: Loss, drawn: Callable[[Tensor], Tensor]) -> Tensor:
    """The outputs along the loss's gradient, that of each sample with a weight of its own."""
    # `∂L/∂f`, in float64 where the loss accepts it, at outputs that are scaled down to one: a
    # softmax that is sure of itself leaves the difference of ones to rounding, and what makes a
    # balance is a linear symmetry of the loss, which it has at scaled outputs too
    modest = out.detach() / out.detach().abs().max().clamp_min(1)
    floating = isinstance(targets, Tensor) and targets.is_floating_point()
    wide = targets.double() if floating else targets
    try:
        leaf = modest.double().requires_grad_()
        pulled = torch.autograd.grad(loss(leaf, wide), leaf)[0]
    except (RuntimeError, TypeError, ValueError):  # a loss that takes one precision only
        leaf = modest.requires_grad_()
        pulled = torch.autograd.grad(loss(leaf, targets), leaf)[0]
    size = pulled.abs().max()
    weights = drawn(out.detach().reshape(len(out), -1)[:, 0] if out.ndim else out)
    shape = (-1, *[1] * (out.ndim - 1)) if out.ndim else ()
    scaled = (pulled / size.clamp_min(torch.finfo(pulled.dtype).tiny)).to(out.dtype)
    return (out * (scaled * weights.reshape(shape))).sum()
