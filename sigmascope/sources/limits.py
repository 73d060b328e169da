"""Sizes beyond which nothing is built: more would take Python's time, however little memory."""

DEEPEST = 10_000  # layers
WIDEST = 100_000  # outputs: larger labels are codes of something
DIGITS = 18  # of a size in words; longer ones are no size of anything
