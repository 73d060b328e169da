"""A small profile by command, and what JSON holds."""

import json

SMALL = ("profile", "mlp?depth=2&width=8", "--samples", "16")


def numbers(text):
    """Everything measured in a JSON profile but how long it took."""
    form = json.loads(text)
    return form["readings"], form["checks"], form["findings"], form["skipped"]


def strictly(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)
