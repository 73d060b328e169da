"""Second derivatives of the loss: Hessian, Gauss-Newton matrix, conditioning."""

from sigmascope.models.curvature.conditioning import Conditioned, Conditioning
from sigmascope.models.curvature.hessian import Curvature, Direction, SelfCheck
from sigmascope.models.curvature.losses import losses_at

__all__ = ["Conditioned", "Conditioning", "Curvature", "Direction", "SelfCheck", "losses_at"]
