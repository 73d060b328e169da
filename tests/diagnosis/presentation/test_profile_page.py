import base64
import re
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
import torch

from sigmascope.core.quantities import quantities
from sigmascope.core.records import (
    Estimate,
    Finding,
    Profile,
    SiteSpectrum,
    Skipped,
    Spectrum,
    Verdict,
)
from sigmascope.core.references import references
from sigmascope.diagnosis.presentation import page
from sigmascope.diagnosis.presentation.profile_page import payload, pieces
from tests.report.pages.in_browser import count, js, key, text_of

POINTS = 200


def show(browser, path):
    browser.get(path.as_uri())


@pytest.fixture
def written(tmp_path, profile, findings):
    return page(profile, findings, tmp_path / "a page with spaces & %20.html")


@pytest.fixture
def shown(browser, written):
    show(browser, written)
    yield browser
    assert browser.get_log("browser") == []


def inked(browser, selector, tone=None):
    """How many pixels of a canvas are drawn on, or have a colour of the page."""
    return js(
        browser,
        "const c = document.querySelector(arguments[0]);"
        "const hex = arguments[1] && ink(arguments[1]);"
        "const part = (at) => parseInt(hex.slice(at, at + 2), 16);"
        "const copy = new OffscreenCanvas(c.width, c.height).getContext('2d');"
        "copy.drawImage(c, 0, 0);"
        "const { data } = copy.getImageData(0, 0, c.width, c.height); let n = 0;"
        "for (let i = 0; i < data.length; i += 4) n += data[i + 3] > 0 && (!hex ||"
        "  (data[i] === part(1) && data[i + 1] === part(3) && data[i + 2] === part(5)));"
        "return n",
        selector,
        tone,
    )


def test_a_thousand_layers_stay_under_two_megabytes(tmp_path, profile):
    parts = [made(i, profile) for i in range(30)]
    every = replace(
        profile,
        **{
            name: tuple(x for part in parts for x in part[name])
            for name in ("layers", "readings", "checks", "spectra")
        },
    )
    assert len(every.layers) == 990
    assert len(every.readings) > 15_000
    assert page(every, (), tmp_path / "page.html").stat().st_size < 2_000_000


def made(i, profile):
    """The profile again, of other layers."""
    site = lambda x: replace(x, site=f"{i}.{x.site}")
    layer = lambda x: replace(
        site(x), depth=x.depth + 33 * i, parameters=tuple(f"{i}.{p}" for p in x.parameters)
    )
    found = {name: map(site, getattr(profile, name)) for name in ("readings", "checks", "spectra")}
    return {**found, "layers": map(layer, profile.layers)}


def test_the_page_is_small_and_asks_for_nothing_outside_itself(written):
    own = written.read_text()
    assert len(own.encode()) < 200_000
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
        "Measured 33 of 33 layers (weights 33 of 33), 1 of them in part; 2 measurements left out"
    )
    assert count(shown, ".card") == 3
    assert inked(shown, "#panels canvas") > 5000
    assert js(shown, "return panels[0].chart.spots.length") > 100
    assert [inked(shown, "#spectrum", tone) > 100 for tone in ("--c0", "--c1")] == [True, True]
    assert js(shown, "return document.title") == "mlp?depth=32&width=128&norm=none · sigmascope"
    titles = "return [...document.querySelectorAll('.card.error dt')].map((t) => t.textContent)"
    assert js(shown, titles) == ["What to do", "Evidence", "Source"]
    # of training there is none
    assert js(shown, "return document.getElementById('training').hidden")
    assert js(shown, "return document.querySelector('a[href=\"#training\"]').hidden")
    assert count(shown, "#chances > div") == 0
    names = js(shown, "return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in names if not name.startswith("data:")] == []  # nothing is fetched
    nameless = js(
        shown,
        "return [...document.querySelectorAll('button, select, input, canvas')].filter((c) =>"
        "!c.textContent.trim() && !c.getAttribute('aria-label') && !c.closest('label')).length",
    )
    assert nameless == 0


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


def test_the_table_sorts_by_any_column_with_what_is_missing_last(shown):
    for field in ("site", "depth", "view", "quantity", "interval", "how", "risk"):
        js(shown, "document.querySelector(`#rows [data-field=${arguments[0]}]`).click()", field)
        keys = js(shown, "return table.order.map((i) => table.sort.keys[i])")
        known = [k for k in keys if isinstance(k, int | float)]
        assert known == sorted(known)
        assert keys[: len(known)] == known
        assert count(shown, f"#rows [aria-sort=ascending] [data-field={field}]") == 1
    for order, sign in (("ascending", 1), ("descending", -1)):
        js(shown, "document.querySelector('#rows [data-field=value]').click()")
        values = js(shown, "return table.order.map((i) => rows[i].value)")
        assert values == sorted(values, key=lambda v: sign * v)
        assert count(shown, f"#rows [aria-sort={order}]") == 1
    assert js(shown, "return document.activeElement.dataset.field") == "value"


def test_only_rows_in_sight_are_in_the_document(shown):
    assert count(shown, "#rows .row") < 40
    js(shown, "document.getElementById('rows').scrollTop = 3000; table.drawRows()")
    assert count(shown, "#rows .row") < 45
    js(shown, "const d = document.querySelector('#checks details'); d.open = true;"
              "d.dispatchEvent(new Event('toggle'))")  # fmt: skip
    assert 10 < count(shown, "#checks .row") < 40
    assert text_of(shown, "#checks .row .verdict") == "holds"
    assert text_of(shown, "#checks .row").endswith("H is not zero: met")


def test_a_row_leads_to_its_layer(shown):
    key(shown, "#rows", "End")
    key(shown, "#rows", "ArrowUp")
    key(shown, "#rows", "Enter")
    assert js(shown, "return state.depth") == 32
    js(shown, "document.getElementById('rows').scrollTop = 0; table.drawRows()")
    js(shown, "document.querySelector('#rows .row').click()")
    assert js(shown, "return state.depth") == 0


def test_numbers_come_back_as_they_were_measured(shown, profile):
    read = js(shown, "return rows.map((r) => [r.site, r.quantity, r.value, r.low, r.high, r.how])")
    for (*words, value, low, high, how), r in zip(read, profile.readings, strict=True):
        e = r.estimate
        assert (*words, how) == (r.site, r.quantity, e.how)
        assert value == pytest.approx(e.value, rel=1e-6)
        slack = 1e-6 * abs(e.value)
        assert low <= e.low + slack
        assert high is None or high >= e.high - slack
    spectrum = next(s for s in profile.spectra if s.site == "hidden.3.linear").spectrum
    found = js(shown, "return spectraOf(LAYERS[3])[0]")
    assert (found["count"], found["rank"]) == (
        len(spectrum.sigma),
        [*range(1, 1 + len(spectrum.sigma))],
    )
    assert found["sigma"] == pytest.approx(spectrum.sigma.tolist(), rel=2e-3)


def test_points_are_told_of_and_open_their_layer(shown):
    first = "#panels canvas"
    for name in ("Home", "ArrowRight", "ArrowRight"):
        key(shown, first, name)
    spot = "const one = panels[0].chart, spot = one.spots[2]"
    assert text_of(shown, "#tip strong") == "hidden.0.linear (Linear)"
    assert js(shown, f"{spot}; return spot.mark.says(spot.i)[1]") in text_of(shown, "#tip")
    js(shown, "document.activeElement.blur()")
    assert js(shown, "return document.getElementById('tip').hidden")
    js(
        shown,
        "const one = panels[0].chart, spot = one.spots.at(-1);"
        "const box = one.canvas.getBoundingClientRect();"
        "for (const name of ['pointermove', 'click']) one.canvas.dispatchEvent(new MouseEvent("
        "name, { clientX: box.left + spot.x + 1, clientY: box.top + spot.y }))",
    )
    assert js(shown, "return state.depth") == 33
    assert text_of(shown, "#tip strong") == "(output)"
    js(shown, "choose(3)")
    key(shown, "#spectrum", "End")
    assert "value" in text_of(shown, "#tip")


def test_the_table_filters(shown):
    js(
        shown,
        "const f = document.getElementById('filter'); f.value = 'hidden.7. NORM';"
        "f.dispatchEvent(new Event('input'))",
    )
    said = js(shown, "return document.getElementById('count').textContent")
    assert said == "3 readings"


def test_the_theme_toggles_and_the_curves_follow(shown):
    ground = "return getComputedStyle(document.body).backgroundColor"
    drawn = "return document.querySelector('#panels canvas').toDataURL()"
    before = js(shown, ground), js(shown, drawn)
    js(shown, "document.getElementById('theme').click()")
    after = js(shown, ground), js(shown, drawn)
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert inked(shown, "#panels canvas", "--c0") > 50
    js(shown, "document.getElementById('theme').click()")
    assert (js(shown, ground), js(shown, drawn)) == before


def test_a_finding_leads_to_its_place_in_the_curves(shown):
    js(shown, "document.querySelectorAll('.card .button')[1].click()")
    assert js(shown, "return [state.view, state.depth]") == ["features", 2]
    found = "return document.querySelector('.panel.found')"
    assert js(shown, f"{found}.querySelector('h3').textContent") == "Adjoint norm"
    assert js(shown, f"{found} === document.activeElement")
    assert js(shown, "return document.getElementById('site').value") == "2"


def test_what_has_no_form_is_drawn_with_every_form(shown):
    forms = "return data.views.find((v) => v.view === 'representations').forms.map((f) => f.form)"
    assert js(shown, forms) == ["samples"]
    titles = "return [...document.querySelectorAll('#panels h3')].map((h) => h.textContent)"
    assert "Dead units" in js(shown, titles)
    js(shown, "document.querySelectorAll('.card .button')[2].click()")
    assert js(shown, "return document.querySelector('.panel.found h3').textContent") == "Dead units"


def test_views_can_be_switched_quickly(shown):
    js(
        shown,
        "const names = data.views.map((v) => v.view);"
        "for (const v of [...names, ...names]) document.querySelector(`[data-view=${v}]`).click();"
        "document.getElementById('log').click(); document.getElementById('theme').click();"
        "document.getElementById('next').click()",
    )
    assert js(shown, "return state.view") == "gradients"
    assert "0.9991" in js(shown, "return document.getElementById('panels').textContent")


def test_the_bound_is_drawn_and_can_be_hidden(shown):
    spots = "return panels[0].chart.spots.length"
    assert count(shown, ".legend .bound") == 1
    drawn = js(shown, spots)
    js(shown, "document.getElementById('bounds').click()")
    note = "return document.querySelector('.legend .bound').offsetParent"
    assert js(shown, note) is None  # no longer seen
    assert js(shown, spots) == drawn - 33


def test_a_bound_that_is_broken_is_crossed(browser, tmp_path, profile):
    broken = (replace(profile.checks[0], verdict=Verdict.VIOLATED), *profile.checks[1:])
    show(browser, page(replace(profile, checks=broken), (), tmp_path / "page.html"))
    assert inked(browser, "#panels canvas", "--error") > 20


def test_all_panels_look_closer_at_what_is_dragged_over(shown):
    from selenium.webdriver.common.action_chains import ActionChains

    (canvas,) = shown.find_elements("css selector", "#panels .panel:first-child canvas")
    js(shown, "arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", canvas)
    before = js(shown, "return state.depth")
    move = ActionChains(shown).move_to_element(canvas).click_and_hold().move_by_offset(60, 0)
    move.move_by_offset(140, 4).release().perform()
    low, high = js(shown, "return [depths.range.low, depths.range.high]")
    assert 10 < low < 20 < high < 25
    seen = "return panels.filter((p) => p.chart).map((p) => p.chart.x.low)"
    assert set(js(shown, seen)) == {low}
    assert js(shown, "return state.depth") == before  # the end of a drag is no click
    js(shown, "document.getElementById('whole').click()")
    assert js(shown, "return depths.range") is None
    assert js(shown, "return document.getElementById('whole').hidden")


def test_a_mouse_that_comes_back_without_its_button_draws_over_nothing(shown):
    js(
        shown,
        "const c = document.querySelector('#panels canvas'), box = c.getBoundingClientRect();"
        "const at = (name, x, buttons) => c.dispatchEvent(new PointerEvent(name, { buttons,"
        "  clientX: box.left + x, clientY: box.top + 20, pointerType: 'mouse' }));"
        "at('pointerdown', 100, 1); at('pointermove', 300, 0); at('pointerup', 300, 0)",
    )
    assert js(shown, "return depths.range") is None


@pytest.mark.parametrize("plot", ["#panels canvas", "#spectrum"])
def test_keys_look_closer_and_back(shown, plot):
    ends = "const one = document.querySelector(arguments[0]).chart;return one.x.high - one.x.low"
    whole = js(shown, ends, plot)
    key(shown, plot, "+")
    key(shown, plot, "+")
    assert js(shown, ends, plot) == pytest.approx(whole / 4)
    key(shown, plot, "-")
    assert js(shown, ends, plot) == pytest.approx(whole / 2)
    key(shown, plot, "Escape")
    assert js(shown, ends, plot) == whole


def test_a_quantity_can_be_hidden_and_the_scale_chosen(shown):
    drawn = inked(shown, "#panels canvas", "--c2")
    js(
        shown,
        "const b = document.querySelectorAll('.legend button')[2]; b.focus(); b.click()",
    )
    assert inked(shown, "#panels canvas", "--c2") < drawn / 10
    assert js(shown, "return document.activeElement.getAttribute('aria-pressed')") == "false"
    before = js(shown, "return panels[0].chart.spots[0].y")
    js(shown, "document.getElementById('log').click()")
    assert js(shown, "return panels[0].chart.spots[0].y") != before


def test_hostile_names_do_nothing(browser, tmp_path, hostile, hostile_findings):
    folder = tmp_path / "a folder <b> with 'quotes' and spaces"
    folder.mkdir()
    path = page(hostile, hostile_findings, folder / "page.html")
    js(browser, "window.alerted = false")
    show(browser, path)
    js(browser, "document.querySelector('.card .button').click()")
    for depth in range(5):
        js(browser, "choose(arguments[0])", depth)
        js(browser, "const p = panels[0].chart; p.at = 7 * arguments[0]; p.draw()", depth)
        assert count(browser, "#tip a, #tip b, #tip [onerror]") == 0
    js(browser, "for (const d of document.querySelectorAll('details')) d.open = true")
    assert count(browser, "img") == 0
    assert count(browser, "script") == 2
    text = js(browser, "return document.body.textContent")
    assert "<script>alert(1)</script>" in text
    assert "\u202e" not in js(browser, "return document.querySelector('main').textContent")
    assert browser.get_log("browser") == []


def test_an_empty_profile_has_a_page(browser, tmp_path):
    show(browser, page(Profile(readings=()), (), Path(tmp_path) / "empty.html"))
    assert "No findings" in js(browser, "return document.body.textContent")
    assert browser.get_log("browser") == []


def test_usual_ranges_are_drawn_and_told_and_can_be_hidden(shown):
    js(shown, "show('representations', 'samples')")
    picture = "return document.querySelector('#panels canvas').toDataURL()"
    told = js(shown, "return said(rows.find((r) => r.quantity === 'participation ratio')).at(-1)")
    assert re.match(r"usual: .* to .* at the start \(\d+ networks\); .* trained", told)
    before = js(shown, picture)
    js(shown, "document.getElementById('usual').click()")
    assert js(shown, picture) == before  # of several curves they would lie on one another
    js(shown, "document.getElementById('usual').click()")
    for hidden in ("centred participation ratio", "matrix rank", "soft rank", "effective rank"):
        js(shown, f"document.querySelector(`[data-line='representations|{hidden}']`).click()")
    before = js(shown, picture)
    js(shown, "document.getElementById('usual').click()")
    assert js(shown, picture) != before
    js(shown, "document.getElementById('usual').click()")
    assert js(shown, picture) == before


RANKS = ("representations", "samples", "matrix rank")


@pytest.mark.parametrize(
    ("changed", "count", "curves"),
    [
        ({}, 34, [RANKS]),
        ({"theorem": "new"}, 33, [RANKS]),  # one of tomorrow is found by its numbers
        # the rank of a check may differ from the reading; what is no reading is not drawn
        ({"measured": Estimate.exactly(99.0)}, 34, [RANKS]),
        ({"theorem": "new", "measured": Estimate.exactly(77.7)}, 34, []),
    ],
)
def test_a_bound_is_placed_on_the_curve_it_bounds(profile, changed, count, curves):
    checks = tuple(replace(c, **changed) for c in profile.checks[:count])
    bounds = payload(replace(profile, checks=checks), ())["bounds"]
    assert [bound["curve"] for bound in bounds] == curves
    assert [bound["theorem"] for bound in bounds] == [checks[0].theorem] * len(curves)


def test_long_spectra_are_thinned_and_keep_what_is_said_of_them():
    sigma = torch.linspace(4096, 1, 4096, dtype=torch.float64)
    sigma[-3:] = 0
    site = SiteSpectrum("fc", "weights", "matrix", Spectrum(sigma, (4096, 4096), "gram"))
    data = payload(Profile(readings=(), spectra=(site,)), ())
    kept = data["spectra"]
    assert [data["sites"][place] for place in kept["site"]] == ["fc"]
    assert kept["what"]["words"] == ["weights matrix"]
    assert kept["size"]["words"] == ["4096 × 4096, 4096 values, 3 of them zero, 200 drawn"]
    assert kept["count"] == [4096]
    assert len(base64.b64decode(kept["values"][0])) == 16 + 2 * POINTS


@pytest.mark.parametrize(
    ("values", "said"), [([2.0], "1 value"), ([0.0, 0.0], "2 values, 2 of them zero, 0 drawn")]
)
def test_a_spectrum_says_how_many_values_it_has_and_how_many_are_drawn(values, said):
    sigma = torch.tensor(values, dtype=torch.float64)
    site = SiteSpectrum("fc", "weights", "matrix", Spectrum(sigma, (4, len(sigma)), "gram"))
    kept = payload(Profile(readings=(), spectra=(site,)), ())["spectra"]
    assert kept["size"]["words"] == [f"4 × {len(sigma)}, {said}"]


def test_each_reason_stands_once_with_its_sites(profile):
    skipped = tuple(Skipped(site, "rank", "all rows are equal") for site in ("a", "<b>"))
    given = pieces(replace(profile, skipped=skipped), ())["skipped"]
    assert given.count("<details>") == 1
    assert "<strong>2</strong><span>rank</span>" in given
    assert ">a\n&lt;b&gt;</pre>" in given
    many = tuple(Skipped(str(i), "rank", "all rows are equal") for i in range(1003))
    given = pieces(replace(profile, skipped=many), ())["skipped"]
    assert given.endswith("999\nand 3 more, which the JSON form has</pre></details>")


def test_a_bound_has_a_gap_where_its_theorem_does_not_apply(profile):
    silent = replace(profile.checks[7], verdict=Verdict.INAPPLICABLE)
    checks = (*profile.checks[:7], silent, *profile.checks[8:])
    (bound,) = payload(replace(profile, checks=checks), ())["bounds"]
    assert bound["points"] == [*range(7), None, *range(8, 33), None]


def test_causes_training_and_probabilities_are_given(trained, findings):
    under = replace(findings[1], follows=findings[0].name)
    given = pieces(trained, (findings[0], under, findings[2]))
    assert [given["cards"].count(f'class="{kind}') for kind in ("card ", "consequence ")] == [2, 1]
    assert given["headline"].startswith("2 causes")
    meanings = [quantities()[r.quantity].says for f in findings for r in f.evidence]
    assert meanings
    assert all(escape(says) in given["cards"] for says in meanings)
    titles = re.findall("<dt>(probability[^<]*)<", given["chances"])
    assert titles == ["probability of fitting", "probability at your settings"]
    rows = re.findall('<th scope="row">([^<]*)</th>', given["runs"])
    assert rows == ["as planned", "rate x 10", "rate x 100"]


def test_without_findings_or_training_these_are_empty():
    given = pieces(Profile(readings=()), ())
    assert (given["headline"], given["chances"]) == ("", "")
    assert "card " not in given["cards"]
    assert "runs" not in given
    assert given["trained"] == "hidden"


def test_quantities_of_one_unit_share_a_panel_and_each_form_has_its_own(profile):
    """What is no matrix goes with every form."""
    other = [
        replace(r, form="channels")
        for r in profile.readings
        if r.quantity == "matrix rank" and r.site == profile.layers[3].site
    ]
    given = payload(replace(profile, readings=(*other, *profile.readings)), ())
    (seen,) = (v["forms"] for v in given["views"] if v["view"] == "representations")
    assert [form["form"] for form in seen] == ["samples", "channels"]
    titles = [[panel["title"] for panel in form["panels"]] for form in seen]
    assert "Dead units" in titles[0]
    assert titles[1] == ["Matrix rank", "Dead units"]
    assert {"matrix rank", "soft rank"} <= {*seen[0]["panels"][0]["quantities"]}


def test_a_finding_leads_to_its_layer_and_its_curve(profile, findings):
    given = payload(profile, findings)
    first = given["findings"][0]
    assert first["shows"] == ("representations", "samples", "participation ratio")
    assert (first["depth"], first["at"], given["start"]) == (9, 9, 9)


def test_usual_ranges_are_of_the_curves_that_are_drawn(profile):
    found = payload(profile, ())["usual"]
    drawn = {(r.view, r.form, r.quantity) for r in profile.readings}
    assert {tuple(u["curve"]) for u in found} == {r.curve for r in references()} & drawn
    one = next(r for r in references() if r.curve in drawn)
    (given,) = [u for u in found if u["curve"] == one.curve and u["low"] == one.p05]
    assert given["high"] == one.p95
    assert f"({one.networks} networks)" in given["says"]
