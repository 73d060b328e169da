"""Run files as a page that follows them, and as a file."""

import base64
import http.client
import json
import os
import re
import socket
import time
from pathlib import Path

import numpy as np
import pytest

from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import quantity
from sigmascope.core.store import Damaged, Run, since
from sigmascope.watching import live
from sigmascope.watching.live import POINTS, Feed, History, Panel, Server, names, thinned
from tests.runs_made import SITES, made, reading, spectrum

LEAST, MOST = 128, 1024


def told(path):
    found = History(path.name)
    found.take(since(path))
    return found


def doubles(text):
    return np.frombuffer(base64.b64decode(text), "<f8")


def places(text, count):
    raw = base64.b64decode(text)
    return np.frombuffer(raw, "<u2" if len(raw) == 2 * count else "<u4")


def unpacked(form):
    """Rows of series, step and value."""
    n = form["count"]
    steps = doubles(form["grid"])[places(form["at"], n)]
    values = np.frombuffer(base64.b64decode(form["value"]), "<f4")
    return list(
        zip(places(form["series"], n).tolist(), steps.tolist(), values.tolist(), strict=True)
    )


def test_a_state_says_what_there_is(tmp_path):
    found = told(made(tmp_path / "a.run"))
    state = json.loads(json.dumps(found.state(), allow_nan=False))
    assert (state["name"], state["step"]) == ("a.run", 59)
    panels = {p["quantity"]: p["rows"] for p in state["panels"]}
    assert panels == {"loss": 60, "gradient norm": 60 * len(SITES), "watched share": 60}
    assert [state["ranks"][state["sites"].index(s)] for s in SITES] == [*range(len(SITES))]
    assert state["alarms"] == [
        {"begin": 20, "severity": "warning", "quantities": []},
        {"begin": 40, "severity": "warning", "quantities": ["gradient norm"]},
    ]
    (gradients,) = [p for p in state["panels"] if p["quantity"] == "gradient norm"]
    assert gradients["log"]
    assert state["first"] == gradients["key"]
    assert [s["rows"] for s in state["spectra"]] == [4, 4]
    assert [row[0] for row in found.scrubbed(0)] == [0, 16, 32, 48]


def test_what_is_told_of_a_run_stays_while_the_run_goes_on(tmp_path):
    found = told(made(tmp_path / "a.run"))
    said = found.told(note="n")
    assert (said.name, said.step, said.note, said.places) == ("a.run", 59, "n", len(SITES))
    assert said.layers
    assert said.loss is not None
    assert said.loss[0] == 59
    assert said.about == {"optimizer": "AdamW"}
    assert [(s.finding.site, s.begin, s.end) for s in said.alarms] == [
        (SITES[1], 20, 30),
        (SITES[4], 40, None),
    ]
    assert list(said.panels.values()) == ["loss", "gradient norm", "watched share"]
    assert [site for site, _ in said.spectra.values()] == [*SITES[:2]]
    found.about["more"], found.skipped["fc", "rank", "why"] = "yes", 3
    assert "more" not in said.about
    assert not said.skipped


def test_panels_of_one_quantity_are_told_apart(tmp_path):
    path = tmp_path / "a.run"
    with Run(path) as run:
        rows = [reading("(loss)", "loss", 1.0), reading("(loss)", "loss", 1.1, "mean of steps")]
        run.add(step=0, readings=rows)
    state = told(path).state()
    assert [p["title"] for p in state["panels"]] == ["loss", "loss (mean of steps)"]
    assert state["first"] in [p["key"] for p in state["panels"]]


def test_what_is_new_comes_alone(tmp_path):
    path = made(tmp_path / "a.run", 5)
    found = told(path)
    place = [p["quantity"] for p in found.state()["panels"]].index("loss")
    first = unpacked(found.numbers(place))
    assert [step for _, step, _ in first] == [0, 1, 2, 3, 4]
    mark = since(path).mark
    with Run(path) as run:
        run.add(step=9, readings=[reading("(loss)", "loss", 0.25)])
    found.take(since(path, mark))
    form = found.numbers(place, 5)
    assert (form["after"], form["rows"]) == (5, 6)
    assert unpacked(form) == [(found.sites["(loss)"], 9.0, 0.25)]
    assert found.numbers(place, 6)["count"] == 0


def test_steps_filed_again_after_a_restart_count_once(tmp_path):
    path = tmp_path / "a.run"
    with Run(path) as run:
        for step, value in ((0, 1.0), (5, 2.0), (10, 3.0), (5, 7.0), (12, 8.0)):
            row = [reading("fc", "gradient norm", value)]
            run.add(step=step, readings=row, spectra=[spectrum("fc", step)])
    found = told(path)
    assert unpacked(found.numbers(0)) == [(0, 0, 1), (0, 5, 7), (0, 10, 3), (0, 12, 8)]
    assert [row[0] for row in found.scrubbed(0)] == [0, 5, 12]


def test_many_readings_are_thinned_and_extremes_stay():
    panel, rng = Panel(), np.random.default_rng(0)
    values = rng.standard_normal((3, 50_000))
    values[1, 31_234], values[2, 77] = 99.0, -99.0
    for step in range(50_000):
        for site in range(3):
            panel.add(site, step, (values[site, step],) * 3)
    rows = unpacked(panel.form())
    assert len(rows) <= 3 * (MOST + 4)
    assert (1, 31_234.0, 99.0) in rows
    assert (2, 77.0, -99.0) in rows
    for site in range(3):
        own = [row for row in rows if row[0] == site]
        assert [own[0][1], own[-1][1]] == [0, 49_999]
        assert [step for _, step, _ in own] == sorted({step for _, step, _ in own})


def test_many_layers_share_what_a_screen_draws():
    panel = Panel()
    for step in range(500):
        for site in range(400):
            panel.add(site, step, (float(step),) * 3)
    assert panel.form()["count"] <= 400 * (max(LEAST, POINTS // 400) + 4)


@pytest.mark.parametrize("most", [1, 2, 7, 100])
def test_thinning_keeps_the_order_and_the_ends_at_any_size(most):
    rng = np.random.default_rng(1)
    series = rng.integers(0, 4, 300).astype(np.uint32)
    steps, values = rng.integers(0, 60, 300).astype(float), rng.standard_normal(300)
    kept = thinned(series, steps, values, most)
    pairs = [(series[i], steps[i]) for i in kept]
    assert pairs == sorted({*pairs})
    for s in range(4):
        last = {step: i for i, step in enumerate(steps) if series[i] == s}
        own = [i for i in kept if series[i] == s]
        assert {*own} <= {*last.values()}
        assert {min(last), max(last)} <= {steps[i] for i in own}
        assert max(values[i] for i in own) == max(values[i] for i in last.values())
    assert len(thinned(series[:0], steps[:0], values[:0], most)) == 0


def test_intervals_and_infinities_come_through():
    panel = Panel()
    panel.add(0, 1, (2.0, 1.0, 3.0))
    panel.add(0, 2, (float("inf"),) * 3)
    form = json.loads(json.dumps(panel.form(), allow_nan=False))
    assert "gaps" in form
    assert form["odd"]["1"][0] == "Infinity"


def test_files_of_one_name_are_called_by_their_paths():
    a, b = Path("x/a.run"), Path("y/a.run")
    assert names([a, b]) == [str(a), str(b)]
    assert names([a, Path("b.run")]) == ["a.run", "b.run"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.run"


@pytest.fixture
def feed(path):
    return Feed(path, "a.run")


def look(feed):
    while feed.look():
        pass
    return feed.state()


def add(path, step):
    with Run(path) as run:
        run.add(step=step, readings=[reading("(loss)", "loss", 1.0)])


def test_a_file_that_is_not_there_is_waited_for(feed, path):
    assert look(feed)["trouble"] == "There is no run file yet."
    made(path, 3)
    state = look(feed)
    assert (state["trouble"], state["step"]) == ("", 2)


def test_a_state_that_was_seen_is_not_sent_again(feed, path):
    made(path, 3)
    seen = look(feed)["version"]
    assert feed.state(seen) == {"version": seen, "generation": 0}
    look(feed)
    assert feed.state(seen) == {"version": seen, "generation": 0}
    add(path, 7)
    assert look(feed)["step"] == 7


def test_a_file_that_is_replaced_is_read_anew_and_it_is_said(feed, path, tmp_path):
    made(path, 9)
    look(feed)
    made(tmp_path / "b.run", 3).replace(path)
    state = look(feed)
    assert (state["generation"], state["step"]) == (1, 2)
    assert "replaced by another run" in state["note"]
    assert feed.panel(0, 0, 0) == {"generation": 1}  # asked by who has not heard of it
    assert feed.panel(0, 0, 1)["rows"] == 3


def test_what_was_read_of_a_file_that_is_gone_stays(feed, path):
    made(path, 3)
    look(feed)
    path.unlink()
    state = look(feed)
    assert state["trouble"] == "The file is gone; what was read of it stays here."
    assert state["step"] == 2


def test_damage_is_said_and_mended_files_go_on(feed, path):
    made(path, 3)
    look(feed)
    whole = path.read_bytes()
    os.truncate(path, 5000)
    state = look(feed)
    assert "is damaged" in state["trouble"]
    assert state["step"] == 2
    path.write_bytes(whole)
    assert look(feed)["trouble"] == ""


def test_another_file_in_its_place_is_said(feed, path):
    path.write_text("hello " * 40)
    assert "is not a sigmascope run file" in look(feed)["trouble"]


def test_a_finding_that_cannot_be_read_is_damage(feed, path, monkeypatch):
    made(path, 30)
    monkeypatch.setattr("sigmascope.core.store.following.row", lambda *_: [][0])
    assert "the findings cannot be read" in look(feed)["trouble"]
    monkeypatch.undo()
    assert look(feed)["step"] == 29


def test_spectra_are_given_by_their_place(feed, path):
    made(path, 20)
    look(feed)
    assert [row[0] for row in feed.spectra(1, 0)["spectra"]] == [0, 16]


def test_all_of_two_runs_is_in_the_file(tmp_path):
    runs = [made(tmp_path / "a.run"), made(tmp_path / "b.run", 30)]
    text = live.written(tmp_path / "x.html", runs).read_text()
    data = json.loads(re.search(r'<script type="application/json".*?>(.*?)</script>', text)[1])
    assert data["live"] is False
    assert [run["step"] for run in data["runs"]] == [59, 29]
    for run in data["runs"]:
        panels, spectra = run["kept"]["panels"], run["kept"]["spectra"]
        assert [form["rows"] for form in panels] == [p["rows"] for p in run["panels"]]
        assert [len(form["spectra"]) for form in spectra] == [s["rows"] for s in run["spectra"]]


def test_a_long_run_is_read_in_several_looks(tmp_path, monkeypatch):
    path = made(tmp_path / "a.run")
    whole = live.history(path, "a").state()
    since = live.since
    monkeypatch.setattr(live, "since", lambda path, mark: since(path, mark, most=50))
    assert live.history(path, "a").state() == whole


def test_nothing_is_written_of_what_cannot_be_read(tmp_path):
    path = made(tmp_path / "a.run", 9)
    path.write_bytes(path.read_bytes()[:-4096] + bytes(4096))
    with pytest.raises(Damaged):
        live.written(tmp_path / "x.html", [path])
    assert not (tmp_path / "x.html").exists()


def test_another_file_is_left_alone(tmp_path):
    (tmp_path / "x.html").write_text("mine")
    with pytest.raises(Refusal):
        live.written(tmp_path / "x.html", [made(tmp_path / "a.run", 2)])
    assert (tmp_path / "x.html").read_text() == "mine"


@pytest.fixture
def server(tmp_path):
    with Server([made(tmp_path / "a.run", 9), tmp_path / "none.run"]).start() as server:
        yield server


def port_of(server):
    return int(server.url.rstrip("/").rpartition(":")[2])


def ask(server, path, method="GET", **headers):
    line = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=10)
    line.request(method, path, headers=headers)
    answer = line.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.headers)
    line.close()
    return found


def until(found, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError("it did not come")


def state(server):
    runs = json.loads(ask(server, "/state")[1])["runs"]
    return runs[0]["step"] is not None and runs


def test_the_page_and_its_numbers_are_served(server):
    status, text, headers = ask(server, "/")
    assert status == 200
    assert "<title>a.run and none.run" in text
    assert "connect-src 'self'" in text
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    first, second = until(lambda: state(server))
    assert first["step"] == 8
    assert second["trouble"] == "There is no run file yet."
    seen = json.loads(ask(server, f"/state?seen0={first['version']}")[1])["runs"][0]
    assert seen == {"version": first["version"], "generation": 0}
    panel = json.loads(ask(server, "/panels?run=0&place=0&after=0&generation=0")[1])
    assert panel["rows"] == 9
    spectra = json.loads(ask(server, "/spectra?run=0&place=0&generation=0")[1])
    assert [row[0] for row in spectra["spectra"]] == [0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:99", "[::1]", "[::1]:80"])
def test_this_machine_may_ask_by_its_names(server, host):
    assert ask(server, "/", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "localhost:x", "@"]
)
def test_a_name_that_was_led_here_is_refused(server, host):
    status, text, _ = ask(server, "/state", Host=host)
    assert (status, text) == (421, "Ask by 127.0.0.1.")


@pytest.mark.parametrize(
    "path",
    ["/x", "/../../etc/passwd", "/panels", "/panels?run=0&place=99&after=0&generation=0",
     "/panels?run=2&place=0&after=0&generation=0", "/panels?run=-1&place=0&after=0&generation=0",
     "/panels?run=0&place=x&after=0&generation=0", "/state?seen0=x", "/spectra?run=0", "/state/",
     "/spectra?run=0&place=7&generation=0"],
)  # fmt: skip
def test_there_is_nothing_else(server, path):
    until(lambda: state(server))
    assert ask(server, path)[0] == 404


def test_what_is_too_long_or_no_get_is_refused(server):
    assert ask(server, "/state?" + "x" * 2000)[0] == 414
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(server, "/", method)[0] == 501


def test_it_listens_on_loopback_alone(server):
    assert server.url.startswith("http://127.0.0.1:")
    assert server._http.server_address[0] == "127.0.0.1"


def test_a_browser_that_leaves_is_not_complained_of(server, capfd):
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port_of(server))) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert ask(server, "/")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_port_in_use_is_refused_with_what_to_do_and_free_after_it(server, tmp_path):
    port = port_of(server)
    with pytest.raises(Refusal, match=f"of {port} the system says that another program uses it"):
        Server([tmp_path / "a.run"], port=port)
    server.close()
    with Server([tmp_path / "a.run"], port=port) as again:
        assert port_of(again) == port


def test_a_panel_says_what_its_quantity_means(tmp_path):
    for panel in told(made(tmp_path / "a.run", 3)).state()["panels"]:
        known = quantity(panel["quantity"])
        says = known.says[:1].upper() + known.says[1:]
        assert panel["means"].startswith(f"{says}.")
        assert panel["means"].endswith(f"{known.source}.")
        assert ("Unit: " in panel["means"]) is bool(known.unit)
        assert ("Usual: " in panel["means"]) is bool(known.healthy)
        assert panel["log"] is (known.scale == "log")
