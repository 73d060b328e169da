"""Derivatives of the output: adjoints, the neural tangent kernel, input Jacobians."""

from sigmascope.probes.jacobian.adjoints import Adjoint
from sigmascope.probes.jacobian.backward import Sweep
from sigmascope.probes.jacobian.input_jacobian import Jacobians
from sigmascope.probes.jacobian.per_sample_gradients import Collinearity
from sigmascope.probes.jacobian.sample_mixing import Extent

__all__ = ["Adjoint", "Collinearity", "Extent", "Jacobians", "Sweep"]
