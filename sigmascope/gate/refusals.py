"""What every room raises where it will not go on."""


class Refusal(ValueError):
    """Something that cannot be done as asked: what was expected, what came, what to do now.

    The message is written for the person who asked; the command line shows it and ends with 2.
    """


class NoFolder(Refusal, FileNotFoundError):
    """A file cannot be written, for there is no folder for it."""
