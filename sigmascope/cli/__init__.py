"""`sigmascope`: each command is one call into the library and one call into `report`.

Heavy imports are inside functions, so that help does not wait for torch.
"""

from sigmascope.cli.apps import COMMANDS, UNDER, app, main
from sigmascope.cli.outputs import examples

__all__ = ["COMMANDS", "UNDER", "app", "examples", "main"]
