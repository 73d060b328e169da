"""What profiles read on request, because of a theorem: one file a view."""

from sigmascope.theory.views import balances, bottleneck, conditioning

__all__ = ["balances", "bottleneck", "conditioning"]
