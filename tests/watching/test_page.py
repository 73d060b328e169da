"""The page of a run in a browser, while the run grows and as a file."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from sigmascope.core.store import Run
from sigmascope.watching import AlarmSpan, live, page
from sigmascope.watching.page import Told, live_text, pieces
from tests.diagnosis.presentation.test_profile_page import inked
from tests.report.pages.in_browser import count, js, key, text_of
from tests.runs_made import HOSTILE, SITES, alarm, begin, looks, made, over, reading, spectrum

NOON = datetime(2026, 1, 20, 12, tzinfo=UTC)
GRADIENTS = '\'["gradient norm", "watch", ""]\''


def until(browser, code, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := js(browser, f"return {code}"):
            return value
        time.sleep(0.1)
    raise AssertionError(f"{code} did not come: {js(browser, f'return {code}')}")


def says(browser, place, words):
    until(browser, f"document.getElementById('{place}').textContent.includes('{words}')")


def ready(browser):
    until(browser, "document.documentElement.dataset.ready")


@pytest.fixture
def shown(browser, tmp_path):
    runs = [made(tmp_path / "a.run", apart=35), made(tmp_path / "b.run", seed=1)]
    browser.get(live.written(tmp_path / "two.html", runs).as_uri())
    ready(browser)
    yield browser
    assert browser.get_log("browser") == []


def choose(browser, select, value):
    js(
        browser,
        "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('change'))",
        select,
        value,
    )


def test_curves_map_and_alarms_grow_while_the_run_does(browser, tmp_path):
    """A thread appends to the file that the page follows."""
    path, go = tmp_path / "live.run", threading.Event()

    def train():
        with Run(path) as run:
            begin(run)
            for step, rows in looks(40, apart=10):
                found = [alarm(SITES[4])] if step == 25 else [over(SITES[4])] * (step == 35)
                spectra = [spectrum(SITES[0], step)] if step % 10 == 0 else []
                run.add(step=step, readings=rows, findings=found, spectra=spectra)
                go.wait() if step == 12 else time.sleep(0.01)

    with live.Server([path]).start() as server:
        browser.get(server.url)
        ready(browser)
        assert "waiting for the first reading" in text_of(browser, "#status").lower()
        assert "There is no run file yet" in text_of(browser, "#troubles")
        assert text_of(browser, "#quiet") == "Nothing was read yet."
        thread = threading.Thread(target=train)
        thread.start()
        until(browser, "tracks[0].state.step === 12")
        until(browser, f"tracks[0].of({GRADIENTS}).count === 13 * {len(SITES)}")
        says(browser, "quiet", "No alarm was raised.")
        says(browser, "at", "step 10 (2 of 2)")
        drawn = [inked(browser, c) for c in ("#loss", "#curve", "#maps canvas", "#sigma")]
        assert all(n > 500 for n in drawn)
        js(browser, "document.getElementById('earlier').click()")
        assert text_of(browser, "#at") == "step 0 (1 of 2)"
        go.set()
        until(browser, f"tracks[0].of({GRADIENTS}).count === 40 * {len(SITES)}")
        until(browser, "document.querySelector('#past')")
        assert "step 25 to 35" in text_of(browser, "#cards .card .when")
        assert "doubles every 9 steps" in text_of(browser, "#cards .says")
        until(browser, "tracks[0].state.step === 39")
        says(browser, "status", "Step 39")
        until(browser, "state.matrix && spectraOf(tracks[0]).length === 4")
        assert count(browser, ".timeline i") == 1
        assert text_of(browser, ".timeline li").endswith(f"{SITES[4]} · step 25 to 35")
        assert text_of(browser, "#tiles dd") == "39"
        says(browser, "at", "step 0 (1 of 4)")  # what was chosen stays
        assert (
            js(browser, f"return tracks[0].of({GRADIENTS}).lines.get('{SITES[5]}').x.at(-1)") == 39
        )
        assert text_of(browser, "#troubles") == ""
        thread.join()
    until(browser, "document.getElementById('status').textContent.includes('does not answer')")
    refused = [
        line for line in browser.get_log("browser") if "ERR_CONNECTION" not in line["message"]
    ]
    assert refused == []


def test_the_menu_names_what_is_drawn_when_a_new_quantity_comes(browser, tmp_path):
    path = made(tmp_path / "live.run", 5)
    menu = "document.getElementById('quantity')"
    with live.Server([path]).start() as server:
        browser.get(server.url)
        until(browser, f"state.key === {GRADIENTS} && {menu}.value === state.key")
        with Run(path) as run:
            run.add(step=5, readings=[reading(SITES[0], "spectral norm", 1.0)])
        until(browser, f"[...{menu}.options].some((o) => o.text === 'spectral norm')")
        until(browser, "tracks[0].state.step === 5")
        assert js(browser, f"return [state.key, {menu}.value]") == [GRADIENTS.strip("'")] * 2


def test_two_runs_lie_over_each_other(shown):
    assert text_of(shown, "h1") == "a.run and b.run"
    assert count(shown, "#maps figure:not([hidden])") == 2
    assert count(shown, "#loss-keys .line") == 2
    assert js(shown, "return curveMarks().length") == 2 * len(SITES)
    assert js(shown, "return curveMarks().filter((l) => l.dash.length).length") == len(SITES)
    assert inked(shown, "#loss", "--c0") > 100
    assert inked(shown, "#loss", "--c1") > 100
    assert count(shown, "#cards > .card.warning") == 2


def test_a_quantity_and_its_layers_are_chosen(shown):
    assert text_of(shown, "#curve-title") == "gradient norm"
    assert js(shown, "return document.getElementById('log').checked")
    assert "Pascanu" in text_of(shown, "#meaning")
    js(shown, "document.getElementById('none').click()")
    assert text_of(shown, "#chosen") == f"Layers: 0 of {len(SITES)}"
    js(shown, "document.querySelectorAll('#boxes input')[2].click()")
    assert js(shown, "return curveMarks().map((l) => l.site)") == [SITES[2]] * 2
    js(shown, "const f = document.getElementById('filter'); f.value = 'blocks.5';"
       "f.dispatchEvent(new Event('input'))")  # fmt: skip
    assert count(shown, "#boxes input") == 1
    choose(shown, "#quantity", js(shown, "return lossKeys().single"))
    until(shown, "document.getElementById('curve-title').textContent === 'loss'")
    assert count(shown, "#maps figure:not([hidden])") == 2


def test_looking_closer_shows_the_same_steps_everywhere(shown):
    key(shown, "#loss", "+")
    low, high = js(shown, "return [steps.range.low, steps.range.high]")
    assert 10 < low < high < 50
    assert js(shown, "return [maps[0].x.low, maps[0].x.high]") == [low, high]
    at = "return getComputedStyle(document.querySelector('.timeline li')).getPropertyValue('--low')"
    assert float(js(shown, at)) == pytest.approx(low)
    assert not js(shown, "return document.getElementById('whole').hidden")
    key(shown, "#curve", "Escape")
    assert js(shown, "return steps.range") is None


def test_what_is_pointed_at_is_said(shown):
    key(shown, "#curve", "End")
    assert "step 59" in text_of(shown, "#tip")
    assert "gradient norm:" in text_of(shown, "#tip")
    key(shown, "#maps canvas", "ArrowDown")
    assert SITES[0] in text_of(shown, "#tip")
    key(shown, "#maps canvas", "ArrowDown")
    assert SITES[1] in text_of(shown, "#tip")
    key(shown, "#maps canvas", "Enter")
    assert js(shown, "return [...state.chosen]") == [SITES[1]]
    until(shown, f"JSON.parse(state.matrix)[0] === '{SITES[1]}'")


def test_time_is_moved_through_spectra(shown):
    assert text_of(shown, "#at") == "step 48 (4 of 4)"
    assert js(shown, "return document.getElementById('later').disabled")
    js(shown, "const w = document.getElementById('when'); w.value = '1';"
       "w.dispatchEvent(new Event('input'))")  # fmt: skip
    assert text_of(shown, "#at") == "step 16 (2 of 4)"
    keys = js(
        shown,
        "return [...document.querySelectorAll('#sigma-keys .line')].map((k) => k.textContent)",
    )
    assert keys == ["a.run, first: step 0", "a.run, step 16", "b.run, step 16"]


def test_readings_of_zero_are_counted_on_a_log_scale(browser, tmp_path):
    path = made(tmp_path / "a.run", 9)
    with Run(path) as run:
        run.add(step=9, readings=[reading(SITES[0], "gradient norm", 0.0)])
    browser.get(live.written(tmp_path / "a.html", [path]).as_uri())
    ready(browser)
    assert text_of(browser, "#nothing") == "1 reading not above zero has no place on a log scale."
    js(browser, "document.getElementById('log').click()")
    assert js(browser, "return document.getElementById('nothing').hidden")
    assert browser.get_log("browser") == []


def test_an_alarm_leads_to_its_curve(shown):
    js(shown, "document.querySelector('#cards .card .button').click()")
    until(shown, f"state.chosen && [...state.chosen][0] === '{SITES[4]}'")
    assert text_of(shown, "#curve-title") == "gradient norm"


def test_the_theme_is_chosen_and_narrow_screens_hold_all(shown):
    js(shown, "document.getElementById('theme').click()")
    assert js(shown, "return document.documentElement.dataset.theme") in ("dark", "light")
    assert js(shown, "return document.documentElement.scrollWidth <= innerWidth")


def test_a_run_of_one_step_and_an_empty_one_say_so(browser, tmp_path):
    Run(tmp_path / "none.run").close()
    for path, words in (
        (made(tmp_path / "a.run", 1), "Until step 0"),
        (tmp_path / "none.run", "No reading"),
    ):
        browser.get(live.written(tmp_path / f"{path.stem}.html", [path]).as_uri())
        ready(browser)
        assert words in text_of(browser, "#status")
    assert text_of(browser, "#quiet") == "Nothing was read yet."
    assert text_of(browser, "#unmapped:not([hidden])") == "Nothing was read of a layer yet."
    assert "No spectrum was filed" in text_of(browser, "#unkept")
    assert browser.get_log("browser") == []


def test_hostile_names_do_nothing(browser, tmp_path):
    sites = (HOSTILE, *SITES[1:])
    run = made(tmp_path / "a.run", 25, {HOSTILE: HOSTILE, "__proto__": "x"}, sites=sites)
    with Run(run) as more:
        more.add(step=26, findings=[alarm(HOSTILE, name=HOSTILE)])
    browser.get(live.written(tmp_path / "a.html", [run]).as_uri())
    ready(browser)
    assert count(browser, "img, iframe, script[src]") == 0
    assert HOSTILE in text_of(browser, "#cards")
    assert HOSTILE in text_of(browser, "#words")
    assert browser.get_log("browser") == []


def test_the_live_page_may_ask_its_own_server_alone():
    text = live_text([Told(name="<b>.run")])
    assert "&lt;b&gt;.run" in text
    assert "default-src 'none'" in text
    assert "connect-src 'self'" in text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s ago"),
        (89, "89 s ago"),
        (91, "2 minutes ago"),
        (5390, "90 minutes ago"),
        (5401, "2 hours ago"),
        (172_700, "48 hours ago"),
        (172_801, "2 days ago"),
        (864_000, "10 days ago"),
    ],
)
def test_how_long_ago_the_last_step_was(seconds, said, monkeypatch):
    clock = type("Clock", (datetime,), {"now": staticmethod(lambda zone: NOON)})
    monkeypatch.setattr(page, "datetime", clock)
    run = Told(name="a.run", step=7, time=(NOON - timedelta(seconds=seconds)).isoformat())
    assert f"Step 7, {said}." in pieces([run], live=True)["status"]
    assert "ago" not in pieces([run], live=False)["status"]


def spans(count, *, ended):
    return [AlarmSpan(alarm(f"fc{i}"), i, i + 5 if ended else None) for i in range(count)]


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(("count", "more"), [(30, ""), (31, "and 1 "), (33, "and 3 ")])
def test_thirty_alarms_are_cards_and_the_rest_is_counted(count, more, ended):
    made = pieces(
        [Told(name="a", step=50, time=NOON.isoformat(), alarms=spans(count, ended=ended))],
        live=False,
    )["alarmed"]
    assert made.count("<article") == 30
    assert more in made
    assert (f"{count} alarms ended" in made) is ended
    assert made.count('<li style="--begin') == 14  # lanes


def test_alarms_in_force_give_their_tile_its_tone():
    def tiles(*severities):
        alarms = [AlarmSpan(alarm("fc", severity=s), 1) for s in severities]
        run = Told(name="a", step=5, time=NOON.isoformat(), alarms=alarms)
        return pieces([run], live=False)["tiles"]

    assert "alarm in force" in tiles("error")
    assert "alarms in force" in tiles()
    for severities, tone in (
        ((), "good"),
        (("warning",), "warning"),
        (("warning", "error"), "error"),
    ):
        assert f'class="{tone}"' in tiles(*severities)
    assert 'class="good"' not in tiles("note")
