"""A rule declares itself, and is called as the function that it is made of."""

from sigmascope.core.records import Kind, Rule, kinds_of, rule

ODD, EVEN = Kind("odd", "it is odd", "me"), Kind("even", "it is even", "me")


@rule("number", ODD, EVEN)
def parity(number):
    """Whether it can be halved."""
    yield (ODD if number % 2 else EVEN).finding("here", "note", (), f"It is {number}.")


def test_a_rule_finds_what_its_function_finds():
    assert [f.name for f in parity(3)] == ["odd"]
    assert [f.name for f in parity(4)] == ["even"]


def test_a_rule_declares_its_name_what_it_reads_and_what_it_may_find():
    assert isinstance(parity, Rule)
    assert (parity.name, parity.reads, parity.kinds) == ("parity", "number", (ODD, EVEN))
    assert parity.__doc__ == "Whether it can be halved."


def test_kinds_of_rules_are_named_once():
    assert kinds_of((parity, parity)) == (ODD, EVEN)
