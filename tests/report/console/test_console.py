import re

from rich.text import Text

from sigmascope.report.console import Code, rendered, rendered_html

LONG = "model = " + "x" * 200


def test_code_is_not_wrapped_and_text_is():
    lines = rendered([Text("word " * 40), Code(LONG)], colour=False, width=60).splitlines()
    assert lines[-1] == LONG
    assert max(map(len, lines[:-1])) <= 60


def test_what_acts_on_a_terminal_is_written_out():
    hostile = "\x1b[31mred\x07\u202e"
    for part in (Text(hostile), hostile, Code(hostile)):
        said = rendered([part], colour=False, width=60)
        assert not {"\x1b", "\x07", "\u202e"} & set(said)
        assert "red" in said


def test_markup_in_names_is_text():
    assert "[bold]x[/bold]" in rendered(["[bold]x[/bold]"], colour=False, width=60)


def test_html_is_one_element_with_its_style_inside():
    card = rendered_html([Text("a<b", "bold red"), Code("if a < b: pass")], width=60)
    assert card.count("<pre") == card.count("</pre>") == 1
    assert "a&lt;b" in card
    assert "if a &lt; b: pass" in card
    assert "color: light-dark(#b3261e,#ff8f86)" in card
    assert "class=" not in card


def test_every_colour_of_a_card_has_one_by_night():
    colours = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
    said = [
        Text(f"{dim}{c} #b3261e", f"{dim}{c}") for c in colours for dim in ("", "dim ", "bold ")
    ]
    card = rendered_html(said, width=60)
    assert not re.search(r"color: ?#", card.split(">", 1)[1])
    assert card.count("#b3261e<") == len(said)  # what only reads like a colour is left alone
    head = card[: card.index(">")]
    assert head.index("background:#fff;") < head.index("background:light-dark(")
