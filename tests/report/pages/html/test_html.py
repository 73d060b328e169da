import json
import re
from pathlib import Path

import pytest

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Verdict
from sigmascope.diagnosis.presentation import profile_page as profiles
from sigmascope.diagnosis.scaling import page as widths
from sigmascope.diagnosis.scripts import page as training_scripts
from sigmascope.report import pages
from sigmascope.report.pages import legible, page_text, write_page
from sigmascope.scanning import page as scans
from sigmascope.theory.presentation import landscape_html as landscapes
from sigmascope.watching import page as runs

ASSETS = {"template": "page.html", "scripts": ("words.js", "page.js")}


def test_data_cannot_leave_the_element_they_stand_in(tmp_path):
    data = {"name": "</script><script>alert(1)</script>&\u2028"}
    path = write_page(tmp_path / "a.html", title="<t>", data=data, **ASSETS)
    text = path.read_text("utf-8")
    assert text.startswith("<!doctype html>\n<!-- a page of sigmascope -->\n")
    assert "<title>&lt;t&gt;" in text
    held = re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", text, re.DOTALL)[1]
    assert json.loads(held) == {"name": "</script><script>alert(1)</script>&\\u2028"}
    assert "alert(1)</script>" not in text


def test_only_the_two_scripts_written_here_may_run(tmp_path):
    more = {"template": "landscape.html", "scripts": ("words.js",), "plots": True}
    text = write_page(tmp_path / "a.html", title="t", data={}, **more).read_text("utf-8")
    policy = re.search(r"default-src 'none'; script-src ([^;]*);", text)[1]
    assert len(re.findall("sha256-", policy)) == 2
    assert "unsafe" not in policy


def test_a_page_without_plots_has_one_script_and_its_own_styles(tmp_path):
    style = ("page.css", "scan.css")
    more = {"template": "scan.html", "scripts": ("words.js",), "styles": style}
    text = write_page(tmp_path / "a.html", title="t", data={}, **more).read_text("utf-8")
    assert len(re.findall("sha256-", text)) == 1
    assert len(text) < 100_000
    assert ".multiples" in text
    assert ".card" in text


def test_a_page_asks_nobody_unless_it_is_live():
    assert "connect-src" not in page_text(title="t", data={}, **ASSETS)
    assert "connect-src 'self'\"" in page_text(title="t", data={}, live=True, **ASSETS)


@pytest.mark.parametrize("page", [landscapes, profiles, runs, scans, widths])
def test_no_two_scripts_of_a_page_give_one_name_to_two_things(page):
    """A later function would silently take the place of an earlier one."""
    folder = Path(pages.__file__).parent / "assets"
    top = re.compile(r"^(?:function|const|class|let) (\w+)", re.MULTILINE)
    names = [
        name for script in page._SCRIPTS for name in top.findall((folder / script).read_text())
    ]
    assert len(names) > 20
    assert {name for name in names if names.count(name) > 1} == set()


def test_every_script_is_of_some_page():
    folder = Path(pages.__file__).parent / "assets"
    of_pages = {
        name
        for page in (landscapes, profiles, runs, scans, training_scripts, widths)
        for name in page._SCRIPTS
    }
    assert {path.name for path in folder.glob("*.js")} == of_pages


def test_another_file_is_left_alone(tmp_path):
    mine = tmp_path / "a.html"
    mine.write_text("<p>mine</p>")
    with pytest.raises(Refusal):
        write_page(mine, title="t", data={}, **ASSETS)
    assert mine.read_text() == "<p>mine</p>"


def test_every_verdict_has_its_colour_and_its_count():
    assets = Path(pages.__file__).parent / "assets"
    style = (assets / "page.css").read_text(encoding="utf-8")
    assert set(profiles._VERDICTS) == {*map(str, Verdict)}
    for verdict in Verdict:
        assert f".verdict.{verdict}" in style


@pytest.mark.parametrize(
    "wrap", [lambda t: t, lambda t: [t], lambda t: (t,), lambda t: {"a": [{"b": t}]}]
)
def test_every_text_in_data_is_printable_however_deep(wrap):
    hostile = "a\x1b\u202e"
    assert not {"\x1b", "\u202e"} & {*"".join(texts(legible(wrap(hostile))))}
    assert [*texts(legible(wrap("plain")))] == ["plain"]


def texts(data):
    if isinstance(data, str):
        yield data
    else:
        for each in data.values() if isinstance(data, dict) else data:
            yield from texts(each)
