import re
from dataclasses import replace
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from sigmascope.records import Finding, Profile, Verdict
from sigmascope.report import page


def show(browser, path):
    browser.get(path.as_uri())
    browser.execute_async_script(
        "const done = arguments[0];"
        "Promise.all(stage.panels.map((p) => p.place && p.place.drawn)).then(() => done())"
    )


def js(browser, code, *arguments):
    return browser.execute_script(code, *arguments)


def count(browser, selector):
    return js(browser, "return document.querySelectorAll(arguments[0]).length", selector)


@pytest.fixture
def written(tmp_path, profile, findings):
    return page(profile, findings, tmp_path / "a page with spaces & %20.html")


@pytest.fixture
def shown(browser, written):
    show(browser, written)
    yield browser
    assert browser.get_log("browser") == []


def test_the_file_is_little_more_than_plotly(written):
    assert written.stat().st_size < len(get_plotlyjs().encode()) + 500_000


def test_the_page_asks_for_nothing_outside_itself(written):
    own = written.read_text().replace(get_plotlyjs(), "")
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", own)
    assert "default-src 'none'" in own
    assert "@import" not in own
    assert "url(" not in own


def test_a_page_appears_whole_or_not_at_all(tmp_path, profile, findings):
    with pytest.raises(FileNotFoundError, match="mkdir -p"):
        page(profile, findings, tmp_path / "nowhere" / "page.html")
    page(profile, findings, tmp_path / "page.html")
    page(profile, (), tmp_path / "page.html")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_coverage_findings_and_curves_are_on_the_page(shown):
    assert js(shown, "return document.getElementById('coverage').textContent").startswith(
        "Measured 33 of 33 layers (weights 33 of 33), 1 of them in part; 2 not measured"
    )
    assert count(shown, ".card") == 3
    assert count(shown, "#panels .scatterlayer .trace") >= 7
    assert count(shown, "#spectrum .scatterlayer .trace") == 2
    assert js(shown, "return document.title") == "mlp?depth=32&width=128&norm=none · sigmascope"


def text_of(browser, selector):
    return js(browser, "return document.querySelector(arguments[0])?.textContent", selector)


def tiles(browser, place="tiles"):
    """The value of each tile by its title."""
    found = js(
        browser,
        "return [...document.querySelectorAll(`#${arguments[0]} > div`)]"
        ".map((d) => [d.querySelector('dt').firstChild.textContent,"
        " d.querySelector('dd').textContent, d.className])",
        place,
    )
    return {title: (value, tone) for title, value, tone in found}


def test_what_follows_folds_under_its_cause(browser, tmp_path, profile, findings):
    first, second, third = findings
    under = replace(second, follows=first.name)
    show(browser, page(profile, (first, under, third), tmp_path / "page.html"))
    assert count(browser, ".card") == 2
    assert count(browser, ".card.error details") == 1
    assert count(browser, ".card.note details") == 0
    assert count(browser, "details[open]") == 0
    assert text_of(browser, ".card.error summary") == "1 finding follows from this"
    assert text_of(browser, ".card.error details h3") == "vanishing-adjoints"
    assert "He initialisation" not in text_of(browser, ".card.error details")
    assert text_of(browser, "#headline") == (
        "2 causes: 1 error, 1 note; 1 finding follows from them."
    )
    seen = tiles(browser)
    assert seen["error"] == ("1", "error")
    assert seen["warnings"] == ("0", "good")
    assert seen["note"] == ("1", "")
    assert seen["finding follows from them"] == ("1", "")
    js(
        browser,
        "document.querySelector('summary').click();"
        "document.querySelector('.consequence .button').click()",
    )
    assert js(browser, "return [state.view, state.depth]") == ["features", 2]
    assert browser.get_log("browser") == []


def test_what_follows_from_nothing_that_is_shown_is_a_card(browser, tmp_path, profile, findings):
    alone = replace(findings[1], follows="rank-collapse")
    show(browser, page(profile, (alone,), tmp_path / "page.html"))
    assert count(browser, ".card.warning") == 1
    assert count(browser, ".card details") == 0
    assert text_of(browser, ".card dl").endswith("Follows fromrank-collapse")
    assert tiles(browser)["warning"] == ("1", "warning")


def test_what_to_do_stands_before_the_evidence(shown):
    titles = js(
        shown, "return [...document.querySelectorAll('.card.error dt')].map((t) => t.textContent)"
    )
    assert titles == ["What to do", "Evidence", "Source"]


def test_only_theorems_that_spoke_are_counted_and_never_in_green(browser, tmp_path, profile):
    show(browser, page(profile, (), tmp_path / "page.html"))
    assert tiles(browser)["theorem that applies is upheld"] == ("1 of 1", "")
    silent = tuple(replace(c, verdict=Verdict.INAPPLICABLE) for c in profile.checks)
    show(browser, page(replace(profile, checks=silent), (), tmp_path / "page.html"))
    assert tiles(browser)["theorems apply to this model"] == ("none", "")
    broken = (*profile.checks[1:], replace(profile.checks[0], verdict=Verdict.VIOLATED))
    show(browser, page(replace(profile, checks=broken), (), tmp_path / "page.html"))
    assert tiles(browser)["theorem that applies is upheld"] == ("0 of 1", "error")


def test_training_has_a_section_and_both_probabilities_stand_on_top(browser, tmp_path, trained):
    loss = next(r for r in trained.readings if r.quantity == "loss left")
    late = Finding("rate-too-low", "(training)", "warning", (loss,), "It creeps.", "–", ())
    show(browser, page(trained, (late,), tmp_path / "page.html"))
    odds = tiles(browser, "chances")
    assert odds["probability of fitting"] == ("0.8", "chance good")
    assert odds["probability at your settings"] == ("0.02", "chance error")
    assert "usual learning rates" in text_of(browser, "#chances .meaning")
    lines = js(
        browser,
        "return [...document.querySelectorAll('#runs tr')]"
        ".map((r) => [...r.children].map((c) => c.textContent))",
    )
    assert lines == [
        ["run", "rate", "loss left", "left by then at your settings", "broke at step"],
        ["as planned", "1e−4", "0.98", "–", "–"],
        ["rate x 10", "0.001", "0.31", "0.99", "–"],
        ["rate x 100", "–", "–", "–", "7"],
    ]
    assert tiles(browser, "trained")["planned steps"] == ("400", "")
    assert text_of(browser, "#settings").startswith("Your settings: sgd at 0.0001, batches of 32.")
    assert count(browser, "[data-view=training]") == 0  # of no layer, so no curve
    assert "loss left, as planned: 0.98" in text_of(browser, ".card li")
    assert text_of(browser, ".card .button") == "Show the runs"
    assert browser.get_log("browser") == []


def test_without_training_there_is_no_section_of_it(shown):
    assert js(shown, "return document.getElementById('training').hidden")
    assert js(shown, "return document.querySelector('a[href=\"#training\"]').hidden")
    assert count(shown, "#chances > div") == 0


def test_nothing_is_fetched(shown):
    names = js(shown, "return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in names if not name.startswith("data:")] == []


def test_the_table_sorts_on_click(shown):
    column = "return [...document.querySelectorAll('#rows tbody tr td:nth-child(6)')]"
    numbers = f"{column}.map((td) => Number(td.title.split(' ')[0]))"
    for order, sign in (("ascending", 1), ("descending", -1)):
        js(shown, "document.querySelector('#rows [data-key=value]').click()")
        values = js(shown, numbers)
        assert values == sorted(values, key=lambda v: sign * v)
        assert count(shown, f"#rows th[aria-sort={order}]") == 1
    assert js(shown, "return document.activeElement.dataset.key") == "value"


def test_the_table_filters(shown):
    js(
        shown,
        "const f = document.getElementById('filter'); f.value = 'hidden.7. NORM';"
        "f.dispatchEvent(new Event('input'))",
    )
    said = js(shown, "return document.getElementById('count').textContent")
    assert said == "3 readings, 3 shown"


def test_the_theme_toggles_and_the_curves_follow(shown):
    ground = "return getComputedStyle(document.body).backgroundColor"
    ink = (
        "return document.querySelector('#panels .js-fill, #panels .lines path').style.stroke +"
        "getComputedStyle(document.querySelector('#panels .xtick text')).fill"
    )
    before = js(shown, ground), js(shown, ink)
    js(shown, "document.getElementById('theme').click()")
    after = js(shown, ground), js(shown, ink)
    assert before[0] != after[0]
    assert before[1] != after[1]
    js(shown, "document.getElementById('theme').click()")
    assert (js(shown, ground), js(shown, ink)) == before


def test_a_finding_leads_to_its_place_in_the_curves(shown):
    js(shown, "document.querySelectorAll('.card .button')[1].click()")
    assert js(shown, "return [state.view, state.depth]") == ["features", 2]
    found = "return document.querySelector('.panel.found')"
    assert js(shown, f"{found}.querySelector('h3').textContent") == "Adjoint norm"
    assert js(shown, f"{found} === document.activeElement")
    assert js(shown, "return document.getElementById('site').value") == "2"


def test_what_has_no_form_is_drawn_with_every_form(shown):
    assert js(shown, "return formsOf('representations')") == ["samples"]
    titles = "return [...document.querySelectorAll('#panels h3')].map((h) => h.textContent)"
    assert "Dead units" in js(shown, titles)
    js(shown, "document.querySelectorAll('.card .button')[2].click()")
    assert js(shown, "return document.querySelector('.panel.found h3').textContent") == "Dead units"


def test_views_can_be_switched_quickly(shown):
    js(
        shown,
        "for (const v of [...VIEWS, ...VIEWS]) document.querySelector(`[data-view=${v}]`).click();"
        "document.getElementById('log').click(); document.getElementById('theme').click();"
        "document.getElementById('next').click()",
    )
    assert js(shown, "return state.view") == "gradients"
    assert "0.9991" in js(shown, "return document.getElementById('panels').textContent")


def test_the_bound_is_drawn_and_can_be_hidden(shown):
    dashed = "#panels .panel:first-child path.js-line[style*='dasharray']"
    assert count(shown, ".legend .bound") == 1
    drawn = count(shown, dashed)
    js(shown, "document.getElementById('bounds').click()")
    assert count(shown, ".legend .bound") == 0
    assert count(shown, dashed) < drawn


def test_every_control_has_a_name(shown):
    nameless = js(
        shown,
        "return [...document.querySelectorAll('button, select, input')].filter((c) =>"
        "!c.textContent.trim() && !c.getAttribute('aria-label') && !c.closest('label')).length",
    )
    assert nameless == 0


def test_hostile_names_do_nothing(browser, tmp_path, hostile, hostile_findings):
    folder = tmp_path / "a folder <b> with 'quotes' and spaces"
    folder.mkdir()
    path = page(hostile, hostile_findings, folder / "page.html")
    js(browser, "window.alerted = false")
    show(browser, path)
    js(browser, "document.querySelector('.card .button').click()")
    for depth in range(5):
        js(browser, "choose(arguments[0])", depth)
        js(
            browser,
            "Plotly.Fx.hover(stage.panels[0].place, [{curveNumber: 0, pointNumber: arguments[0]}])",
            depth,
        )
        assert count(browser, ".hoverlayer a, .hoverlayer [onerror]") == 0
    assert count(browser, "img") == 0
    assert count(browser, "script") == 3
    text = js(browser, "return document.body.textContent")
    assert "<script>alert(1)</script>" in text
    assert "\u202e" not in js(browser, "return document.querySelector('main').textContent")
    assert browser.get_log("browser") == []


def test_an_empty_profile_has_a_page(browser, tmp_path):
    show(browser, page(Profile(readings=()), (), Path(tmp_path) / "empty.html"))
    assert "No findings" in js(browser, "return document.body.textContent")
    assert browser.get_log("browser") == []
