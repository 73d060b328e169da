"""Derivatives of the output: adjoints, the neural tangent kernel, input Jacobians."""

from sigmascope.models.jacobian.adjoints import Adjoint, Sweep
from sigmascope.models.jacobian.samples import Collinearity, Extent, Jacobians

__all__ = ["Adjoint", "Collinearity", "Extent", "Jacobians", "Sweep"]
