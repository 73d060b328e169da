import os

import pytest

from sigmascope.gate import Refusal
from sigmascope.scanning.matrices import NameRule, built_in, read_rules, rule_for


def test_the_table_is_read_once_and_every_rule_of_it_is_sound():
    assert built_in() is built_in()
    assert len(built_in()) > 40
    for rule in built_in():
        assert len(rule.kinds) in (0, len(rule.parts))


def test_the_first_rule_that_fits_is_taken():
    rules = (
        NameRule("q$", families=("a",)),
        NameRule("q$", dims=3),
        NameRule("q$", experts=True),
        NameRule("q"),
    )
    assert rule_for("x.q", ("b", "a"), 2, rules) is rules[0]
    assert rule_for("x.q", ("b",), 3, rules) is rules[1]
    assert rule_for("x.q", ("b",), 2, rules) is rules[3]
    assert rule_for("x.v", (), 2, rules) is None


def test_a_rule_without_parts_speaks_of_kernels_too_and_one_that_leaves_out_of_all():
    assert NameRule("q").fits("q", (), 4)
    assert not NameRule("q", parts=("a", "b")).fits("q", (), 4)
    assert NameRule("q", left_out="a mask").fits("q", (), 1)


MINE = """
[[rule]]
name = 'fused\\.weight$'
parts = ["a", "b"]
kinds = ["linear", "head"]
families = ["mine"]
repeats = 2
"""


def test_a_file_of_rules(tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    (rule,) = read_rules(tmp_path / "mine.toml")
    assert rule == NameRule(
        r"fused\.weight$", parts=("a", "b"), kinds=("linear", "head"), families=("mine",), repeats=2
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rule]\n", "cannot be read"),
        ("\xff", "cannot be read"),
        ("", r"must hold tables named \[\[rule\]\], got nothing"),
        ("rule = 3", r"must hold tables named \[\[rule\]\]"),
        ("rule = [3]", r"must hold tables named \[\[rule\]\]"),
        ('[[rule]]\nkind = "x"', "got no name"),
        ('[[rule]]\nname = "x"\nkinds_ = []', "got kinds_"),
        ("[[rule]]\nname = 'x('", "must be a regular expression"),
        ('[[rule]]\nname = "x"\nturned = "yes"', "`turned` .* must be of type true or false"),
        ('[[rule]]\nname = "x"\nfamilies = "gpt2"', "`families` .* must be of type list"),
        ('[[rule]]\nname = "x"\nkind = 3', "`kind` .* must be of type text"),
        ('[[rule]]\nname = "x"\nrepeats = true', "`repeats` .* must be of type number"),
        ('[[rule]]\nname = "x"\nrepeats = 0', "must repeat once or more"),
        ('[[rule]]\nname = "x"\nlayout = "odd"', "`layout` .* must be one of blocks"),
        ('[[rule]]\nname = "x"\nsizes = "odd"', "`sizes` .* must be one of equal"),
        ('[[rule]]\nname = "x"\nparts = ["a"]\nkinds = ["b", "c"]', "a kind for each of its 1"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(tmp_path, text, says, as_users_see_it):
    (tmp_path / "odd.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(Refusal, match=says):
        read_rules(tmp_path / "odd.toml")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Refusal, match="There is no file"):
        read_rules(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (os.mkfifo, "device, pipe or socket"),
        (os.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "device, pipe or socket"),
        (lambda path: path.write_bytes(b"#" * (1 << 21)), "at most 1 MiB"),
        (lambda path: path.write_text("a = " + "[" * 100_000), "cannot be read"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "cannot be read"),
    ],
)
def test_what_is_no_file_of_rules_is_refused_at_once(make, says, tmp_path):
    make(tmp_path / "x.toml")
    with pytest.raises(Refusal, match=says):
        read_rules(tmp_path / "x.toml")
