"""Derivatives of the output: adjoints, the neural tangent kernel, input Jacobians."""

from sigmascope.probes.jacobian.adjoints import Adjoint, Sweep
from sigmascope.probes.jacobian.samples import Collinearity, Extent, Jacobians

__all__ = ["Adjoint", "Collinearity", "Extent", "Jacobians", "Sweep"]
