"""The page of a script, in a browser: what is on it, that it leads, and that nothing in it acts."""

import math
import re
from collections import Counter
from dataclasses import replace

import pytest

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Finding, Reading
from sigmascope.diagnosis.scripts import Attempt, Script, ScriptDiagnosis, ScriptRun
from sigmascope.diagnosis.scripts.page import script_page
from sigmascope.diagnosis.scripts.seen import Called, Line, LoaderSeen, LossSeen, OptimizerSeen
from tests.report.made_scans import HOSTILE
from tests.report.pages.in_browser import count, js, key, text_of

LINES = """\
for x, y in loader:
    loss = compared(net(x), y)  # </script><img src=x onerror=alert(9)>
    loss.backward()
    opt.step()
"""
GAIN = Estimate(0.6, 0.5, 0.7, "paired over 3 seeds, Student's t", 0.05)
ONE_SEED = Estimate(-0.2, -math.inf, math.inf, "one seed tells no chance from a cure")
DIFF = (
    "--- a/train.py\n+++ b/train.py\n@@ -2,2 +2,3 @@\n     loss = 1\n+    opt.zero_grad()\n-    x\n"
)
CURE = Attempt("zero", "gradients emptied", (2.0,) * 3, (0.5,) * 3, 2.3, GAIN, (2.3, 1.0, 0.5))
RATE = Attempt("rate", "the rate times 100", (2.0,), (math.inf,), 2.3, ONE_SEED,
               (2.3, 1e9, math.inf, math.nan))  # fmt: skip


def made(folder, name="train.py", kind="Net", **changed):
    """What might be found of a script of four lines."""
    file = folder / name
    file.write_text(LINES, encoding="utf-8")
    at = [Line(str(file), line) for line in range(5)]
    losses = LossSeen(at[3], [2.3, 2.1, 1.9, 2.0])
    optimizer = OptimizerSeen(
        "SGD", None, 2, at[4], None, at[3], 4, rates=[0.1] * 4, options={"momentum": 0.9}
    )
    run = ScriptRun(
        steps=4, backwards=4, seconds=1.5, step_seconds=[1.0, 0.004, 0.004], stopped=True,
        modules=[Called(kind, at[2], 18, in_training=4, shapes=(((16, 8),), ((16, 2),)))],
        optimizers=[optimizer], losses={at[3]: losses}, loaders={1: LoaderSeen(at[1], 8, "Random")},
        comparisons=Counter({("cross_entropy", "Addmm", ((16, 2), (16,)), at[2]): 4}),
    )  # fmt: skip
    read = Reading("(script)", q.LOSS_AVOIDED, GAIN, "script", "zero")
    old = Finding("gradients-not-zeroed", at[3].says, "error", (read,), f"{kind} is at fault.",
                  "watched", (f"Call `opt.zero_grad()` in {name}.",))  # fmt: skip
    other = Finding("dead-units", "0.weight", "note", (), "Few fire.", "watched")
    found = ScriptDiagnosis(
        Script(str(file), ("--lr", "0.1")), run, (old, other), (CURE, RATE),
        ("what comes later than these steps",), ("samples drawn at random",), {old.name: DIFF},
    )  # fmt: skip
    return replace(found, **changed)


@pytest.fixture
def shown(browser, tmp_path):
    browser.get(script_page(made(tmp_path), tmp_path / "a page & %20.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []


def test_the_file_is_small_and_asks_for_nothing_outside_itself(tmp_path):
    path = script_page(made(tmp_path), tmp_path / "page.html")
    text = path.read_text("utf-8")
    assert text.startswith("<!doctype html>\n<!-- a page of sigmascope -->\n")
    assert len(text) < 100_000
    assert not re.findall(
        r"""(?:src|href)\s*=\s*["'](?!#|data:)""", re.sub(r"&lt;.*?&gt;", "", text)
    )
    assert "default-src 'none'" in text
    script_page(made(tmp_path), path)  # its own may be written again


def test_another_file_is_left_alone(tmp_path):
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    with pytest.raises(Refusal):
        script_page(made(tmp_path), tmp_path / "mine.html")
    assert (tmp_path / "mine.html").read_text() == "<p>mine</p>"


SAID = {  # by the part of the page
    "#name": ("train.py",),
    "#summary": ("4 steps in 1.5 s", "2.3 → 2"),
    "#tiles": ("4 ms", "0.6 [0.5, 0.7]"),
    ".card.error": ("gradients-not-zeroed", "train.py:3", "loss avoided", "opt.zero_grad()"),
    "#parts .error": ("loss.backward()", "gradients-not-zeroed"),
    "#parts .whole": ("4 ms from one step to the next",),
    "#attempts tbody tr": ("gradients emptied20.50.6 [0.5, 0.7]3",),
    "#left": ("What comes later than these steps", "samples drawn at random"),
    "#words": ("--lr 0.1",),
}


def test_each_part_says_what_was_found_with_severity_line_evidence_and_remedy(shown):
    assert js(shown, "return document.title") == "train.py · sigmascope"
    said = {where: text_of(shown, where) for where in SAID}
    assert [(w, word) for w, words in SAID.items() for word in words if word not in said[w]] == []
    assert text_of(shown, ".card.error .comes") == "+    opt.zero_grad()"
    assert text_of(shown, ".card.error .goes") == "-    x"
    assert (count(shown, ".card"), count(shown, ".card.note .change")) == (2, 0)
    words = "return [...document.querySelectorAll('#parts strong')].map((e) => e.textContent)"
    assert js(shown, words) == ["data", "model", "loss", "backward", "step"]


def test_a_finding_leads_to_its_line_and_to_the_losses(shown):
    ways = "return [...document.querySelectorAll('.card.error a.button')].map((a) => a.hash)"
    row, losses = js(shown, ways)
    assert "loss.backward()" in text_of(shown, row)
    assert losses == "#again"
    assert count(shown, ".card.note a.button") == 0


def test_losses_are_drawn_as_it_is_and_with_each_change(shown):
    keys = "return [...document.querySelectorAll('#keys button')].map((b) => b.textContent)"
    assert js(shown, keys) == ["as it is", "gradients emptied", "the rate times 100"]
    read = js(shown, "return lines.map(({ y }) => Array.from(y, String))")
    assert read[0] == ["2.3", "2.1", "1.9", "2"]
    assert read[2] == ["2.3", "1000000000", "Infinity", "NaN"]
    assert js(shown, "return chart.spots.length") > 5
    assert js(shown, "return document.getElementById('log').checked") is True


def test_a_line_goes_and_comes_by_its_button_and_is_read_by_keys(shown):
    button = "#keys [data-line='2']"
    spots = js(shown, "return chart.spots.length")
    js(shown, "document.querySelector(arguments[0]).click()", button)
    assert js(shown, "return chart.spots.length") < spots
    pressed = "return document.querySelector(arguments[0]).getAttribute('aria-pressed')"
    assert js(shown, pressed, button) == "false"
    js(shown, "document.querySelector(arguments[0]).click()", button)
    assert js(shown, "return chart.spots.length") == spots
    js(shown, "document.getElementById('calm').click()")
    key(shown, "#losses", "Home")
    assert "loss 2.3" in text_of(shown, "#tip")
    key(shown, "#losses", "+")
    assert js(shown, "return document.getElementById('whole').hidden") is False


def test_both_themes_have_the_ink_of_the_other_pages(shown):
    js(shown, "document.documentElement.dataset.theme === 'dark' || byId('theme').click()")
    assert js(shown, "return getComputedStyle(document.body).backgroundColor") == "rgb(16, 19, 23)"


@pytest.mark.parametrize("words", HOSTILE)
def test_names_exceptions_and_files_never_act(browser, tmp_path, words):
    name = f"{words.replace('/', '∕')}.py".replace("\0", "")
    found = made(tmp_path, name, kind=words)
    found.run.error = (words, words, f'  File "{name}", line 1\n{words}\n')
    found = replace(
        found, unlooked=(words,), untried=(words,), diffs={"gradients-not-zeroed": words}
    )
    attempts = (replace(CURE, says=words), RATE)
    browser.get(script_page(replace(found, attempts=attempts), tmp_path / "page.html").as_uri())
    assert js(browser, "return document.documentElement.dataset.ready") is not None
    assert browser.get_log("browser") == []
    assert count(browser, "img, iframe, b, main script") == 0
    assert count(browser, "body > script") == 2
    assert "\n" in text_of(browser, "#error pre")  # lines of a traceback stay lines
    body = text_of(browser, "main")
    for harmful in "\x1b\u202e\u2028\x07":
        assert harmful not in body
    if words.isascii() and words.isprintable():
        assert words in text_of(browser, "#keys")
        assert words in text_of(browser, "#error")
        assert words in text_of(browser, "#parts")


def test_a_script_of_which_nothing_is_known_has_a_page(browser, tmp_path):
    found = ScriptDiagnosis(Script("package.train"), ScriptRun(), ())
    browser.get(script_page(found, tmp_path / "page.html").as_uri())
    assert browser.get_log("browser") == []
    assert js(browser, "return document.getElementById('again').hidden") is True
    assert "No findings" in text_of(browser, "#cards")


def test_other_losses_of_a_script_are_drawn_when_they_are_asked_for(browser, tmp_path):
    found = made(tmp_path)
    critic = Line(str(tmp_path / "train.py"), 2)
    found.run.losses[critic] = LossSeen(critic, [9.0, 8.0])
    browser.get(script_page(found, tmp_path / "page.html").as_uri())
    assert "train.py:2" in text_of(browser, "#keys [aria-pressed='false']")
    assert js(browser, "return chart.spots.every(({ mark }) => !mark.y.includes(9))") is True
