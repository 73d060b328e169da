"""The neural tangent kernel of a batch as an operator; no Jacobian by the parameters is formed."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.linalg import dense
from sigmascope.linalg.krylov import Operator
from sigmascope.models.gradients import differentiable_twice, pushforward
from sigmascope.models.jacobian.adjoints import Sweep, implied, probed
from sigmascope.models.layers import NORMALISERS, explaining, module_name, standardised
from sigmascope.models.tape import Scene, Taped, backward, large

PIECE = 64  # samples on a tape at once


def require_separate(model: nn.Module, sites: Sequence[str], uncovered: Sequence[str]) -> None:
    """Every trained parameter must be used once, in a layer whose gradients a formula covers.

    Args:
        model: The model.
        sites: Its calls of layers.
        uncovered: Layers that no formula covers.

    Raises:
        Refusal: If one is not.
    """
    names = Counter(module_name(site) for site in sites)
    owners = Counter(
        id(p) for m in model.modules() for p in m.parameters(recurse=False) if p.requires_grad
    )
    bad = [*uncovered, *(name for name, uses in names.items() if uses > 1)]
    if max(owners.values(), default=0) > 1:
        bad.append("a tied weight")
    if bad:
        raise Refusal(_UNKNOWN.format(bad[0]))


def trace_of(swept: Sweep, count: int, *, without: Collection[str]) -> Float64[Tensor, " n"]:
    """`Tr Θ(x, x)` of every sample from the shares of all modules.

    Args:
        swept: Over every output.
        count: Samples.
        without: Modules that are counted otherwise.

    Raises:
        Refusal: If a share is not known.
    """
    total = torch.zeros(count, dtype=torch.float64)
    for site, adjoint in swept.adjoints.items():
        if module_name(site) in without:
            continue
        if adjoint.share_sq is None:
            raise Refusal(_UNKNOWN.format(site))
        total += adjoint.share_sq.sum(1).cpu()
    return total


_UNKNOWN = (
    "The exact trace needs layers whose gradients are known and used once, got {}. The reading "
    '"NTK trace" of `survey.profile` has an interval for it.'
)


def tangent_kernel(
    scene: Scene, parameters: Mapping[str, nn.Parameter], *, outputs: int
) -> Operator:
    """`Θ(X, X) = J Jᵀ`, with J the derivative of all outputs on all samples by the parameters.

    A product pulls a vector back to the parameters and pushes that forward again, each in pieces of
    the batch, so that neither J nor a tape of the whole batch is held.

    Args:
        scene: All samples.
        parameters: By which to differentiate.
        outputs: Entries of the output of one sample.
    """
    owned = list(parameters.values())
    size = scene.count * outputs

    def products(block: Tensor) -> Tensor:
        vectors = block.reshape(scene.count, outputs, -1)
        pulled = _pulled(scene, owned, vectors)
        out = torch.zeros_like(vectors)
        for piece, part in scene.pieces(PIECE):
            with differentiable_twice(scene.model), piece.on_tape() as run:
                push = pushforward(run.flat, owned)
                for column, sums in enumerate(pulled):
                    pushed = push(sums)
                    if pushed is not None:
                        out[part, :, column] = pushed.to(out)
        return out.reshape(size, -1)

    return Operator((size, size), products, products, owned[0].detach())


def tangents(
    scene: Scene, parameters: Mapping[str, nn.Parameter], draws: int
) -> Float64[Tensor, "draws n k"]:
    """`J v` of every sample for steps v of all parameters, of one size for each entry.

    As the first step of Adam is, but for the signs, which are drawn; one step is held at a time.
    """
    owned = list(parameters.values())

    def step(draw: int) -> list[Tensor]:
        g = torch.Generator().manual_seed(draw)
        return [torch.randn(p.shape, generator=g).to(p) for p in owned]

    found: list[Tensor] = []
    for piece, _ in scene.pieces(PIECE):
        with differentiable_twice(scene.model), piece.on_tape() as run:
            push, zeros = pushforward(run.flat, owned), torch.zeros_like(run.flat)
            pushed = (push(step(draw)) for draw in range(draws))
            rows = [(zeros if p is None else p).detach().double().cpu() for p in pushed]
            found.append(torch.stack(rows))
            del run, push, pushed
    return torch.cat(found, 1)


def _pulled(scene: Scene, owned: list[nn.Parameter], vectors: Tensor) -> list[list[Tensor]]:
    """`Jᵀ v` of every column v, by parameter."""
    pulled = [[torch.zeros_like(p) for p in owned] for _ in range(vectors.shape[2])]
    for piece, part in scene.pieces(PIECE):
        with explaining(), piece.on_tape() as run:
            flat = run.flat
            for column, sums in enumerate(pulled):
                u = vectors[part, :, column].to(flat)
                grads = torch.autograd.grad(flat, owned, u, retain_graph=True, allow_unused=True)
                for total, g in zip(sums, grads, strict=True):
                    if g is not None:
                        total += g
    return pulled


# ------------------------------------------------------------------------------
# Which trained parameters the formulas of `kernels` account for, and what the others add.


ROUNDINGS = 100  # of what a gradient is added up from, that two ways to it may differ by
LARGE = 2**18  # entries of a weight whose gradient is looked at through one random vector


def unaccounted(scene: Scene, *, size: int = PIECE) -> frozenset[str]:
    """Names of trained parameters whose gradient is not what the calls of layers explain.

    The gradient of a random sum of all outputs, by autograd, is compared with the sum over calls of
    what the formulas say. They differ for a parameter that is used outside its layer, or in another
    form (a parametrisation, a transposed or scaled weight), and for one that no layer owns.

    Args:
        scene: All samples.
        size: How many of them fit on a tape.

    Raises:
        Refusal: If autograd cannot differentiate by a parameter.

    Cost: one forward and one backward pass.
    """
    gaps = Gaps.of(scene.model)
    for piece, _ in scene.pieces(min(size, PIECE)) if gaps.gaps else ():
        with explaining(), piece.on_tape() as run:
            gaps.added(run)
            del run
    return gaps.names


@dataclass(frozen=True, slots=True)
class Gaps:
    """What autograd says of each parameter less what formulas say, added over runs.

    Attributes:
        trained: Parameters by name.
        gaps: The differences; of large weights their products with `probes`.
        sizes: Norms of what they were added up from.
        probes: Vectors of normal numbers of variance 1, so that products are as large as what is
            multiplied on average, and vanish with it alone.
        generator: Draws the sums of outputs.
    """

    trained: dict[str, nn.Parameter]
    gaps: dict[nn.Parameter, Tensor]
    sizes: dict[nn.Parameter, float]
    probes: dict[nn.Parameter, Tensor]
    generator: torch.Generator

    @classmethod
    def of(cls, model: nn.Module) -> "Gaps":
        """Before any run."""
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        g = torch.Generator().manual_seed(1)
        probes = {
            p: torch.randn(p[0].numel(), generator=g).to(p.detach())
            for p in trained.values()
            if p.ndim > 1 and p.numel() >= LARGE and type(p) is nn.Parameter
        }
        like = lambda p: p.detach().flatten(1)[:, 0] if p in probes else p
        zeros = {p: torch.zeros_like(like(p)) for p in trained.values()}
        sizes = dict.fromkeys(zeros, 0.0)
        return cls(trained, zeros, sizes, probes, torch.Generator().manual_seed(0))

    @property
    def names(self) -> frozenset[str]:
        """Of the parameters that the formulas do not explain."""
        apart = lambda p: (
            dense.norm(self.gaps[p])
            > min(ROUNDINGS * torch.finfo(p.dtype).eps, 0.25) * self.sizes[p]
        )
        return frozenset(name for name, p in self.trained.items() if apart(p))

    def added(self, run: Taped) -> frozenset[str]:
        """Fold in one run, whose tape is kept; the names then."""
        flat = run.flat
        if not flat.requires_grad:
            return self.names
        seed = torch.randn(flat.shape, generator=self.generator).to(flat)
        # a forward pass may call layers without gradients, or freeze weights
        calls = [c for c in run.calls if c.output.requires_grad]
        asked = [p for p in self.gaps if p.requires_grad]
        wrote = [c.output for c in calls]
        grads = backward(
            flat, seed, asked, self._take, others=wrote, again=True, large=large(), parts=True
        )
        for call, delta in zip(calls, grads, strict=True):
            if delta is None or call.spoiled:
                continue
            module, normal = call.module, None
            if isinstance(module, NORMALISERS):
                y = call.output.detach()
                normal = standardised(module, call.input, y, run.scene.frozen.seen)
            for p, said, size in implied(call, delta, normal=normal, probes=self.probes):
                if p in self.gaps:
                    self.gaps[p] -= said
                    self.sizes[p] += size
        return self.names

    def _take(self, p: nn.Parameter, grad: Tensor) -> None:
        whole = grad.to_dense() if p in self.probes else grad
        self.gaps[p] += probed(whole, self.probes.get(p))
        self.sizes[p] += dense.norm(grad)


def owners(model: nn.Module, uncovered: Collection[str]) -> dict[str, str]:
    """The module at which each is counted, by name.

    Those that share a trained parameter are counted at the first of them, as what it adds up from
    all of them is squared; parts of an uncovered layer and parametrizations at what they belong to.

    Args:
        model: The model.
        uncovered: Layers of which nothing is known, with all parts.
    """
    places: dict[str, str] = {}
    for name, _ in model.named_modules():
        module = name.split("parametrizations")[0].rstrip(".")
        inside = [u for u in uncovered if not u or module == u or module.startswith(f"{u}.")]
        places[name] = min(inside, key=len, default=module)
    order = {place: i for i, place in enumerate(dict.fromkeys(places.values()))}
    leader = {place: place for place in order}
    first: dict[nn.Parameter, str] = {}
    for name, p in _held(model):
        pair = leader[first.setdefault(p, places[name])], leader[places[name]]
        one, other = sorted(pair, key=order.__getitem__)
        if one != other:
            leader = {place: one if led == other else led for place, led in leader.items()}
    return {name: leader[place] for name, place in places.items()}


def leftovers(
    model: nn.Module, unknown: Collection[str], uncovered: Collection[str]
) -> dict[str, list[nn.Parameter]]:
    """Trained parameters that no formula speaks for, by the module they are counted at.

    A module is left out whole, with those that share a parameter with it.

    Args:
        model: The model.
        unknown: Names of parameters, as `unaccounted` gives them.
        uncovered: Layers of which nothing is known, with all parts.
    """
    at = owners(model, uncovered)
    owned = {p: at[name] for name, p in _held(model)}
    strange = {model.get_parameter(name) for name in unknown}
    for name in uncovered:
        strange.update(model.get_submodule(name).parameters())
    found: dict[str, list[nn.Parameter]] = {o: [] for p, o in owned.items() if p in strange}
    for p, owner in owned.items():
        if owner in found:
            found[owner].append(p)
    return found


def _held(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Trained parameters, once for each module that holds them, with its name."""
    for name, module in model.named_modules():
        yield from ((name, p) for p in module.parameters(recurse=False) if p.requires_grad)


def exact_shares(scene: Scene, parameters: Sequence[nn.Parameter]) -> Float64[Tensor, " n"]:
    """`Σ_k ‖∂ f_k(x_i) / ∂ parameters‖²` of every sample, for parameters used in any way.

    Cost: one forward pass of each sample by itself, and one backward pass for each of its outputs.
    """
    total = torch.zeros(scene.count, dtype=torch.float64)
    for piece, part in scene.pieces(1) if parameters else ():
        with explaining(), piece.on_tape() as run:
            (flat,) = run.flat
            for k in range(len(flat) if flat.requires_grad else 0):
                grads = torch.autograd.grad(
                    flat[k], parameters, retain_graph=k < len(flat) - 1, allow_unused=True
                )
                squares = (dense.square_sum(g) for g in grads if g is not None)
                total[part.start] += sum(squares)
    return total
