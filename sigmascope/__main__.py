"""`python -m sigmascope` is `sigmascope`."""

from sigmascope.cli import main

main()
