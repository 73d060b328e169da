"""No character of a text acts."""

import json
import unicodedata

from hypothesis import given, strategies as st

from sigmascope.core.guard import printable, printable_lines, storable

ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_acts_and_nothing_is_lost(text):
    shown = printable(text)
    assert not {unicodedata.category(c) for c in shown} & ACTING
    assert [c for c in text if unicodedata.category(c) not in ACTING] <= list(
        shown
    ) or "\\" in shown
    assert printable_lines(text).count("\n") == text.count("\n")


@given(st.text(st.characters(exclude_categories=())))
def test_json_stays_json(text):
    quoted = json.dumps(text, ensure_ascii=False)
    shown = printable(quoted, by=lambda c: json.dumps(c)[1:-1])
    assert json.loads(shown) == text
    assert not {unicodedata.category(c) for c in shown} & ACTING


def test_plain_words_are_as_they_were():
    assert printable("encoder.layers.0 é 字 → Σ") == "encoder.layers.0 é 字 → Σ"


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_storable_is_text_of_utf8_and_tells_what_it_was(text):
    kept = storable(text)
    kept.encode("utf-8")
    assert kept == text or any(unicodedata.category(c) == "Cs" for c in text)
    assert storable(kept) == kept
