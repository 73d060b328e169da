"""Watching a model while it trains: what is read, on what budget, and when it raises an alarm."""

from sigmascope.watching.looks import LOSS, OPTIMISER, OVER, OWN, WHOLE, Look, Sink

__all__ = ["LOSS", "OPTIMISER", "OVER", "OWN", "WHOLE", "Look", "Sink"]
