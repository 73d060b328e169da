"""Second derivatives of the loss: Hessian, Gauss-Newton matrix, conditioning."""

from sigmascope.probes.curvature.conditioning import Conditioned, Conditioning
from sigmascope.probes.curvature.hessian import Curvature, Direction, SelfCheck
from sigmascope.probes.curvature.losses import losses_at

__all__ = ["Conditioned", "Conditioning", "Curvature", "Direction", "SelfCheck", "losses_at"]
