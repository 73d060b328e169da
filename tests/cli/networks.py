"""A network that is named on the command line."""

NET = "mlp?depth=2&width=8"
