"""What every measurement is made on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float64
from torch import Tensor

from sigmascope.gate import Refusal
from sigmascope.linalg.krylov import Operator
from sigmascope.probes.curvature.conditioning import Conditioned, conditioning
from sigmascope.probes.curvature.finite_differences import SelfCheck, self_check
from sigmascope.probes.curvature.hessian import Curvature, Kind, chosen_parameters, curvature
from sigmascope.probes.execution.hooks import module_name
from sigmascope.probes.execution.refusals import Unsplit
from sigmascope.probes.jacobian.input_jacobian import Jacobians, jacobians
from sigmascope.probes.jacobian.ntk import require_separate, tangent_kernel, trace_of
from sigmascope.probes.jacobian.per_sample_gradients import Collinearity
from sigmascope.probes.jacobian.unaccounted import exact_shares
from sigmascope.probes.piecewise_affine.affine_map import AffineMap, local_affine
from sigmascope.probes.runs import MIXED, Runs
from sigmascope.probes.scene import Scene


@dataclass(frozen=True)
class Subject(Runs):
    """A model held still on one batch; what is read from it is read once.

    The model is measured without dropout and without drift of its buffers. Batch normalisers found
    in training mode use the statistics of this batch, held constant under differentiation, so that
    the network is a function of one sample; found in evaluation mode they use their running
    statistics. A compiled model is measured through the module it was compiled from. Afterwards the
    model is bit for bit as it was.

    Args:
        model: Any module whose forward accepts the batch.
        batch: A tensor (the argument), a tuple (the arguments) or a mapping (keyword arguments).
            Floating tensors are taken to the model's device and dtype.
        targets: What `loss` compares the output with.
        loss: `loss(output, targets)` -> scalar, e.g. `torch.nn.functional.cross_entropy`.
        outputs: How many columns of the flattened output to differentiate (as many random mixtures
            of all where there are more), or which; 16 if not given, or 8 of more than 65536.
        batch_dim: Where the batch has its samples.
        generator: Draws the mixtures of outputs; a fixed one of its own if not given.

    Raises:
        Refusal: If the model or the batch cannot be measured.
    """

    @property
    def scene(self) -> Scene:
        """The samples, and how the model is run on them."""
        return self._scene

    @cached_property
    def ntk_trace(self) -> Float64[Tensor, " n"]:
        """`Tr Θ(x, x)` of every sample over all outputs, exactly.

        One forward pass, and one backward pass per output, without the Gram matrices of the
        adjoints. Parameters that are used outside of layers, or in another form than their layer's
        (see `unaccounted`), are differentiated by one sample after the other, which takes a
        backward pass for each sample and output.

        Raises:
            Refusal: If a layer has gradients that no formula covers, or is used more than once, so
                that gradients add up before they are squared; or if samples mix.
        """
        self._require_apart("ntk_trace")
        require_separate(self.model, [c.site for c in self.calls], self._uncovered)
        rest = self.leftovers
        every = range(self.output.numel() // self.count)
        by_formula = trace_of(self._swept(every, {}, grams=False), self.count, without=rest)
        return by_formula + exact_shares(self._scene, [p for o in rest.values() for p in o])

    @cached_property
    def gradients(self) -> Collinearity | None:
        """How alike the last-layer gradients of single samples are; None as `unsplit` says."""
        return None if isinstance(self._gradients, str) else self._gradients

    @property
    def unsplit(self) -> str:
        """Why there are no gradients of single samples; empty where there are."""
        return self._gradients if isinstance(self._gradients, str) else ""

    @cached_property
    def _gradients(self) -> Collinearity | str:
        if self.loss is None or self.targets is None:
            return "no targets and loss were given"
        if self.mixing:
            return MIXED.format("gradients", self.mixing)
        try:
            found = self._collinearity
        except Unsplit as reason:  # the rest of the model is measured all the same
            return str(reason)
        return self._used_again(found.site) or found

    def _used_again(self, site: str) -> str:
        """Why the gradient in one call of a layer is not that of its weight; empty if it is."""
        name = module_name(site)
        if sum(module_name(c.site) == name for c in self.calls) > 1:
            return f"the last layer `{name}` is called more than once, and its gradients add up"
        weight = f"{name}.weight" if name else "weight"
        if any(p.requires_grad for p in self.model.parameters()) and weight in self.unaccounted:
            return f"`{weight}`, of the last layer, is used outside of it or in another form too"
        return ""

    @cached_property
    def conditioning(self) -> Conditioned:
        """How well conditioned learning is in every layer, under the loss or squared error.

        One forward pass, and one backward pass for each output.
        """
        self._require_apart("conditioning")
        return conditioning(self._scene)

    def curvature(
        self, kind: Kind = "hessian", *, layers: Sequence[str] | None = None
    ) -> Curvature:
        """The curvature of the loss in all parameters, or in those of some layers.

        Batch normalisers in training mode mix the samples here, as they do in training.

        Args:
            kind: `"hessian"`, `"gauss-newton"` (of squared error without targets and loss), or
                `"fisher"`, the empirical one.
            layers: Modules whose parameters are meant, with those of their parts.

        Raises:
            Refusal: If a layer is unknown or not trained, or targets and loss are missing.

        Cost: one forward and backward pass; one pass along both for each product.
        """
        return curvature(self._scene, kind, chosen_parameters(self.model, layers))

    @cached_property
    def self_check(self) -> SelfCheck:
        """Second derivatives of this model by autograd against finite differences, once."""
        return self_check(self._scene)

    @cached_property
    def jacobians(self) -> Jacobians:
        """Singular values of `∂f(x)/∂x` at every sample.

        One forward pass, and one backward pass for each output, or 64 of mixtures of many.
        """
        self._require_apart("jacobians")
        return jacobians(self._scene, self._generator)

    def tangent_kernel(self, *, layers: Sequence[str] | None = None) -> Operator:
        """`Θ(X, X)` over the batch, every output of every sample after the other.

        Args:
            layers: Modules whose parameters are meant, with those of their parts.

        Raises:
            Refusal: If a layer is unknown, or nothing there is trained.

        Cost: two forward and three backward passes for each product, on 64 samples at a time.
        """
        self._require_apart("tangent_kernel")
        columns = self.output.numel() // self.count
        owned = chosen_parameters(self.model, layers)
        return tangent_kernel(self._scene, owned, outputs=columns)

    def local_affine(
        self, index: int = 0, *, start: str | None = None, stop: str | None = None
    ) -> AffineMap:
        """The affine map around one sample of a batch that is a tensor; see `local_affine`.

        Args:
            index: Which sample.
            start: As for `local_affine`.
            stop: As for `local_affine`.

        Raises:
            Refusal: If there is no such sample, or the network is not piecewise affine.
        """
        if not isinstance(self.batch, Tensor) or not 0 <= index < self.count or self.batch_dim:
            raise Refusal(
                f"The affine map is that around one of the samples of a tensor, got sample {index} "
                f"of {self.count} in a {type(self.batch).__name__}. Use "
                "`probes.piecewise_affine.local_affine`."
            )
        self._require_apart("local_affine")
        return local_affine(self.model, self.batch[index : index + 1], start, stop)
