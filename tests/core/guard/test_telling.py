import pytest

from sigmascope.core.guard import listed, nearest, told

LONG = 200


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("  too wide.\nand more"), "ValueError: too wide"),
        (RuntimeError("Errors in loading:\n  lacks bias.\n  and weight"),
         "RuntimeError: Errors in loading: lacks bias"),
        (RuntimeError(" \n"), "RuntimeError"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)  # fmt: skip
def test_an_exception_is_told_in_one_line(error, says):
    assert told(error) == says


def raised(error, *causes):
    """An error as it is after it was raised from others."""
    for above, below in zip((error, *causes), causes, strict=False):
        above.__cause__ = below
    return error


def test_an_exception_is_told_with_its_root():
    lazy = raised(ImportError("no `A`"), ValueError("between"), OSError("no operator.\nmore"))
    assert told(lazy) == "ImportError: no `A`, from OSError: no operator"
    assert told(raised(KeyError("x"), KeyError("x"))) == "KeyError: 'x'"
    circle = KeyError("x")
    assert told(raised(circle, OSError("y"), circle)) == "KeyError: 'x', from OSError: y"
    assert told(raised(circle, circle)) == "KeyError: 'x'"


def test_the_nearest_word_is_proposed_where_one_is_near():
    assert nearest("dept", ["width", "depth"]) == " Did you mean `depth`?"
    assert nearest("dept", ["width"]) == nearest("dept", []) == ""
    assert nearest("a", iter(["a"])) == " Did you mean `a`?"
    both = nearest("dept", ["width", "depth", "depths"], most=2)
    assert both == " Did you mean `depth` or `depths`?"


def test_a_list_counts_its_tail():
    assert listed("abcde") == "`a`, `b`, `c`, `d`, `e`"
    assert listed("abcdefg") == "`a`, `b`, `c`, `d`, `e` and 2 more"
    assert listed("abc", most=1) == "`a` and 2 more"
    assert listed([]) == ""


def test_a_long_name_is_cut():
    assert listed(["a" * LONG]) == f"`{'a' * LONG}`"
    assert listed(["a" * (LONG + 1)]) == f"`{'a' * LONG}…`"
