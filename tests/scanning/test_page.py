import math
import re
from dataclasses import replace

import pytest

from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import SCAN
from sigmascope.core.records import Estimate, Reading, Scan, SiteSpectrum, Spectrum
from sigmascope.scanning.page import scan_page
from tests.report.made_scans import HOSTILE, ODD, findings, plan, scan, sigma
from tests.report.pages.in_browser import count, js, key, text_of

BEFORE = scan(24, against=True)
PLACE = {m.site: i for i, m in enumerate(BEFORE.matrices)}


def inked(browser, selector):
    """How many pixels of a canvas are drawn on."""
    return js(
        browser,
        "const c = document.querySelector(arguments[0]);"
        "const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        "return data.filter((v, i) => i % 4 === 3 && v > 0).length",
        selector,
    )


def sites(browser):
    """The rows in sight, from the top."""
    return js(
        browser,
        "return [...document.querySelectorAll('#table .row .name')].map((name) => name.title)",
    )


def put(browser, name, value, event="input"):
    js(
        browser,
        "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
        "e.dispatchEvent(new Event(arguments[2]))",
        name,
        value,
        event,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a page with spaces & %20")
    return scan_page(folder / "scan.html", BEFORE, findings(BEFORE))


@pytest.fixture
def shown(browser, written):
    browser.get(written.as_uri())
    yield browser
    assert browser.get_log("browser") == []


def test_the_file_is_small_and_asks_for_nothing_outside_itself(written):
    text = written.read_text("utf-8")
    assert len(text) < 400_000
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", text)
    assert text.startswith("<!doctype html>\n<!-- a page of sigmascope -->\n")
    policy = re.search(r"default-src 'none'; script-src ([^;]*);", text)[1]
    assert len(re.findall("sha256-", policy)) == 1
    assert "unsafe" not in policy
    assert "innerHTML" not in text.replace("there is no innerHTML", "")


def test_ten_thousand_matrices_stay_under_eight_megabytes(tmp_path):
    """However wide their intervals are."""

    def size(blocks):
        return scan_page(tmp_path / f"{blocks}.html", wide_scan(plan(blocks))).stat().st_size

    def wide_scan(planned):
        kept = Spectrum(values, planned.matrices[1].shape, "gram")
        return Scan(
            planned,
            tuple(
                Reading(m.site, name, wide, SCAN, "matrix")
                for m in planned.matrices
                for name in names
            ),
            tuple(SiteSpectrum(m.site, SCAN, "matrix", kept) for m in planned.matrices),
        )

    few, many = 20, 120
    values, _, _ = sigma(plan(few).matrices[1], 1)
    names = sorted({r.quantity for r in BEFORE.readings if " → " not in r.site})
    wide = Estimate(1.5, 1.0, 1.75, "route")
    assert len(names) > 28
    of_each = (size(many) - size(few)) / (len(plan(many).matrices) - len(plan(few).matrices))
    assert size(few) + 10_000 * of_each < 8_000_000


def test_another_file_is_left_alone(tmp_path):
    mine = tmp_path / "a.html"
    mine.write_text("<p>mine</p>")
    with pytest.raises(Refusal):
        scan_page(mine, BEFORE)
    assert mine.read_text() == "<p>mine</p>"


def test_heading_findings_and_charts_are_on_the_page(shown):
    assert text_of(shown, "#source") == "model.safetensors"
    assert js(shown, "return document.title") == "model.safetensors · sigmascope"
    assert text_of(shown, "#coverage").startswith("171 tensors; 25 left out. 2 causes: 1 error")
    assert text_of(shown, "#tiles").startswith("error1warning1notes0matrices146")
    assert count(shown, ".card") == 2
    assert count(shown, ".card .consequence") == 1
    assert count(shown, "#charts canvas") == 8
    assert inked(shown, "#charts canvas") > 100
    assert ODD in text_of(shown, "#outliers")


def test_numbers_come_back_as_they_were_measured(shown):
    for name in ("spectral norm", "noise level", "power-law exponent", "intruders"):
        rows = js(shown, "return SITES.map((_, i) => COLUMN.get(arguments[0]).row(i))", name)
        read = {r.site: r for r in BEFORE.series(name)}
        for site, row in zip(PLACE, rows, strict=True):
            assert (site in read) == (row is not None)
            if row:
                e = read[site].estimate
                assert row["value"] == pytest.approx(e.value, rel=1e-6)
                assert row["low"] <= e.low * (1 + 1e-6)
                assert row["high"] >= e.high * (1 - 1e-6)
                assert (row["how"], row["risk"]) == (e.how, e.risk)


def test_spectra_come_back_with_their_places(shown):
    found = js(shown, "return spectrumOf(arguments[0])", PLACE[ODD])
    whole = BEFORE.spectra[PLACE[ODD]].spectrum.sigma.tolist()
    assert found["count"] == len(whole)
    assert (found["rows"], found["cols"]) == (256, 256)
    assert found["sigma"] == pytest.approx([whole[k - 1] for k in found["rank"]], rel=2e-4)


def test_shares_of_a_spectrum_add_up_and_the_law_has_mass_one(shown):
    total = js(
        shown,
        "const f = spectrumOf(arguments[0]);"
        "const e = Array.from({ length: 200 }, (_, k) => 1e-9 * 1.13 ** k);"
        "return shares(f, e, Math.log).reduce((a, b) => a + b, 0)",
        PLACE[ODD],
    )
    assert total == pytest.approx(1, abs=1e-9)
    mass = js(
        shown,
        "const l = marchenkoPastur(0.3, 0.5); let sum = 0;"
        "const step = (l.high - l.low) / 20000;"
        "for (let k = 0; k < 20000; k += 1) sum += l.at(l.low + step * (k + .5));"
        "return sum * step",
    )
    assert mass == pytest.approx(1, abs=1e-3)


def test_only_rows_in_sight_are_in_the_document(shown):
    assert count(shown, "#table .row") < 40
    js(shown, "document.getElementById('table').scrollTop = 2000; table.drawRows()")
    assert PLACE[sites(shown)[0]] > 40
    assert count(shown, "#table .row") < 45


def test_the_table_sorts_by_any_column(shown):
    one = "#table .line [aria-sort=ascending], #table .line [aria-sort=descending]"
    for field in ("spectral norm", "site", "depth", "shape"):
        orders = []
        for _ in range(2):
            js(shown, "document.querySelector(`[data-field='${arguments[0]}']`).click()", field)
            orders.append(js(shown, "return table.order.map((i) => table.sort.keys[i])"))
        assert {tuple(o) == tuple(sorted(o)) for o in orders} == {True, False}
        assert sorted(orders[0]) == sorted(orders[1])
        assert js(shown, "return document.activeElement.dataset.field") == field
        assert count(shown, one) == 1


def test_what_was_not_read_stands_last(shown):
    for _ in range(2):
        js(shown, "document.querySelector('[data-field=\"power-law exponent\"]').click()")
        last = js(shown, "return COLUMN.get('power-law exponent').row(table.order.at(-1))")
        assert last is None


def test_the_table_filters_by_text_kind_and_depth(shown):
    put(shown, "filter", "BLOCKS.7. query")
    assert sites(shown) == ["blocks.7.attention_query.weight"]
    assert text_of(shown, "#count") == "1 of 146 matrices"
    put(shown, "filter", "")
    put(shown, "from", "3")
    put(shown, "to", "4")
    assert text_of(shown, "#count") == "12 of 146 matrices"
    put(shown, "kind", str(js(shown, "return data.matrices.kind.words.indexOf('attention key')")))
    assert sites(shown) == [f"blocks.{i}.attention_key.weight" for i in (3, 4)]
    put(shown, "filter", "nothing of the kind")
    assert sites(shown) == []


def test_columns_are_chosen_and_say_what_they_are(shown):
    heads = "return [...document.querySelectorAll('#table button')].map((b) => b.dataset.field)"
    assert "largest entry" not in js(shown, heads)
    js(shown, "document.querySelector('[data-column=\"largest entry\"]').click()")
    assert "largest entry" in js(shown, heads)
    box = "document.querySelector('[data-column=\"largest entry\"]')"
    assert "absolute entry" in js(shown, f"return {box}.parentElement.title")
    js(shown, "document.querySelector('[data-column=\"spectral norm\"]').click()")
    assert "spectral norm" not in js(shown, heads)
    title = js(shown, "return document.querySelector('[data-field=\"stable rank\"]').title")
    assert "Rudelson" in title
    meanings = text_of(shown, "#meanings")
    assert "healthy: none before training" in meanings
    assert "at the last layer" not in meanings  # which is healthy for layers, not for weights
    js(shown, "document.querySelector('[data-column=\"noise level\"]').click()")
    assert text_of(shown, "[data-field='noise level'] .unit") == "weight"


def test_a_cell_has_its_interval_in_a_tooltip(shown):
    titles = js(
        shown,
        "return [...document.querySelectorAll('#table .row .n')].map((c) => c.title)",
    )
    assert any(
        re.search(r"in \[.*, .*\]; maximum likelihood.*chance at most 0.05", t) for t in titles
    )
    assert "not measured" in titles


def test_a_finding_leads_to_its_matrix(shown):
    js(shown, "document.querySelectorAll('.card > .button')[1].click()")
    pair = [PLACE["embed.weight"], PLACE["blocks.0.attention_query.weight"]]
    assert js(shown, "return chosen") == pair
    js(shown, "document.querySelectorAll('.card > .button')[0].click()")
    assert js(shown, "return chosen") == [PLACE[ODD]]
    assert text_of(shown, "#facts h3") == ODD
    assert js(shown, "return document.getElementById('quantity').value") == "spectral norm"


def test_a_matrix_shows_spectra_readings_and_what_is_missing(shown):
    js(shown, "show(0)")
    assert inked(shown, "#ranks") > 1000
    assert inked(shown, "#bulk") > 1000
    facts = text_of(shown, "#facts")
    assert "embedding, 512 × 256, bfloat16, 262 kB, full spectrum (gram)" in facts
    assert "this = head.weight: copy cosine 0.999" in facts
    assert "embed.weight → this: alignment 0.12, unit imbalance 0.4" in js(
        shown, "show(1); return document.getElementById('facts').textContent"
    )
    js(shown, "show(0)")
    assert "power-law exponent: the fit is rejected" in facts
    assert "0.02 [0.019, 0.022] maximum likelihood" in text_of(shown, "#numbers")


def test_up_to_four_are_compared(shown):
    js(shown, "show(0); for (const i of [1, 2, 3, 4]) toggle(i)")
    assert js(shown, "return chosen") == [1, 2, 3, 4]
    assert count(shown, "#facts article") == 4
    assert count(shown, "#numbers thead th") == 5
    js(shown, "document.querySelector('#facts .link').click()")
    assert js(shown, "return chosen") == [2, 3, 4]
    js(shown, "for (const i of [2, 3, 4]) toggle(i)")
    assert js(shown, "return document.getElementById('one').hidden")
    assert not js(shown, "return document.getElementById('nothing').hidden")


def test_the_distribution_can_be_linear(shown):
    js(shown, "document.getElementById('loglambda').click()")
    assert "beyond the right end" in text_of(shown, "#beyond")
    js(shown, "document.getElementById('loglambda').click()")
    assert "beyond" not in text_of(shown, "#beyond")


def test_the_table_can_be_walked_by_keys(shown):
    for name in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        key(shown, "#table", name)
    assert js(shown, "return chosen") == [1]
    key(shown, "#table", "End")
    key(shown, "#table", " ")
    assert js(shown, "return chosen") == [1, len(PLACE) - 1]
    assert count(shown, "#table .row.active") == 1


def test_the_charts_can_be_walked_by_keys(shown):
    chart = "#charts figure:nth-child(2) canvas"
    for name in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        key(shown, chart, name)
    assert text_of(shown, "#tip strong") == "blocks.1.attention_query.weight"
    key(shown, chart, "Enter")
    assert js(shown, "return SITES[chosen[0]]") == "blocks.1.attention_query.weight"


def test_a_click_on_a_dot_opens_its_matrix(shown):
    js(
        shown,
        "const canvas = document.querySelectorAll('#charts canvas')[1];"
        "const spot = canvas.chart.spots[7], box = canvas.getBoundingClientRect();"
        "canvas.dispatchEvent(new MouseEvent('click',"
        "{ clientX: box.left + spot.x + 1, clientY: box.top + spot.y }))",
    )
    assert js(shown, "return SITES[chosen[0]]") == "blocks.7.attention_query.weight"


def test_every_quantity_can_be_drawn(shown):
    drawn = js(
        shown,
        "const every = [...document.querySelectorAll('#charts canvas')];"
        "return COLUMNS.map(({ name }) => {"
        "  const choice = document.getElementById('quantity'); choice.value = name;"
        "  choice.dispatchEvent(new Event('change'));"
        "  for (const id of ['log', 'same', 'log']) document.getElementById(id).click();"
        "  return [name, every.reduce((sum, { chart }) => sum + chart.spots.length, 0),"
        "    document.getElementById('means').textContent.length];"
        "})",
    )
    own = {m.site for m in BEFORE.matrices}
    assert {name for name, _, _ in drawn} == {r.quantity for r in BEFORE.readings if r.site in own}
    assert min(means for _, _, means in drawn) > 10
    assert {name: dots for name, dots, _ in drawn}["stable rank"] == len(own)


def test_pairs_are_listed_and_open(shown):
    js(shown, "document.querySelector('#pairs [data-field=\"copy cosine\"]').click()")
    assert text_of(shown, "#pairs .row").startswith("embed.weight = head.weight")
    assert "0.999" in text_of(shown, "#pairs .row")
    js(shown, "document.querySelector('#pairs .row').click()")
    assert js(shown, "return chosen") == [0, len(PLACE) - 1]
    js(shown, "document.querySelector('#facts [data-open]').click()")
    assert js(shown, "return chosen") == [PLACE["blocks.0.attention_query.weight"]]


def test_what_was_left_out_is_listed_by_reason(shown):
    assert count(shown, "#left details") == 2
    names = text_of(shown, "#left .names").split("\n")
    assert names == [f"blocks.{i}.norm.weight" for i in range(24)]


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 400)])
def test_it_follows_the_system_and_fits_any_width(browser, written, theme, width):
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.get(written.as_uri())
        assert js(browser, "return document.documentElement.dataset.theme") == theme
        wide = "return [document.documentElement.scrollWidth, document.body.scrollWidth]"
        assert max(js(browser, wide)) <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_every_control_has_a_name(shown):
    nameless = js(
        shown,
        "return [...document.querySelectorAll('button, select, input, canvas')].filter((c) =>"
        "!c.textContent.trim() && !c.getAttribute('aria-label') && !c.closest('label')).length",
    )
    assert nameless == 0


def test_hostile_names_do_nothing(browser, tmp_path):
    found = scan(3, hostile=True, against=True)
    found = replace(found, plan=replace(found.plan, source=HOSTILE[0]), about={"</dl>": HOSTILE[1]})
    browser.get(scan_page(tmp_path / "page.html", found, findings(found)).as_uri())
    js(browser, "for (const i of [1, 2, 3, 4]) toggle(i)")
    js(browser, "for (const d of document.querySelectorAll('details')) d.open = true")
    key(browser, "#charts canvas", "ArrowRight")
    assert count(browser, "img") == 0
    assert count(browser, "script") == 2
    body = js(browser, "return document.querySelector('main').textContent")
    assert "<img src=x onerror=alert(2)>" in body
    assert "__proto__" in body
    assert not set("\x1b\x07\x00\u202e\u200b") & set(body)
    assert text_of(browser, "#source") == HOSTILE[0]
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("blocks", [None, 0])
def test_a_scan_of_little_has_a_page(browser, tmp_path, blocks):
    if blocks is None:
        found = Scan(replace(plan(1), matrices=(), skipped=()), ())
    else:
        found = Scan(plan(0), ())  # nothing was read
    browser.get(scan_page(tmp_path / "page.html", found).as_uri())
    js(browser, "document.getElementById('theme').click()")
    assert "No findings" in text_of(browser, "#cards")
    assert js(browser, "return document.getElementById('between').hidden")
    assert browser.get_log("browser") == []


def test_odd_numbers_and_leading_values_are_shown(browser, tmp_path):
    planned = plan(2)
    first, second, third = planned.matrices[1:4]
    readings = (
        Reading(first.site, "condition number", Estimate(1e300, 5.0, math.inf, "gram"), SCAN),
        Reading(second.site, "condition number", Estimate.exactly(math.inf), SCAN),
        Reading(third.site, "best scale", Estimate(-0.5, -0.75, 0.5, "exact"), SCAN),
        Reading("(model)", "alignment", Estimate.exactly(0.5), SCAN),
    )
    values = sigma(first, 1)[0]
    spectra = (
        SiteSpectrum(first.site, SCAN, "matrix", Spectrum(values[:20], first.shape, "leading")),
        SiteSpectrum(second.site, SCAN, "kernel", Spectrum(values * 0, (32, 9), "zero")),
        SiteSpectrum(third.site, SCAN, "kernel", Spectrum(values[:9], (32, 9), "kernel")),
    )
    path = scan_page(tmp_path / "page.html", Scan(planned, readings, spectra))
    browser.get(path.as_uri())
    row = js(browser, "show(1); return COLUMN.get('condition number').row(1)")
    assert (row["value"], row["low"]) == (1e300, 5.0)
    assert "[5, ∞]" in text_of(browser, "#numbers")
    assert js(browser, "const s = spectrumOf(3); return [s.rows, s.cols]") == [32, 9]
    assert "Only the largest values" in text_of(browser, "#beyond")
    assert js(browser, "return COLUMN.get('condition number').values()[2]") in (None, math.inf)
    js(browser, "show(2)")
    assert not js(browser, "return document.getElementById('unkept').hidden")
    assert "∞" in text_of(browser, "#numbers")
    for quantity in ("condition number", "best scale"):
        put(browser, "quantity", quantity, "change")
    js(browser, "document.getElementById('log').click()")
    assert "1 not above zero" in text_of(browser, "#charts")
    assert text_of(browser, "#pairs .row").startswith("(model)")
    assert browser.get_log("browser") == []
