"""The server answers this machine alone, and little."""

import http.client
import json
import re
import socket
import time

import pytest

from sigmascope.gate import Refusal
from sigmascope.watching.live import Server
from tests.runs_made import made


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
    panel = json.loads(ask(server, "/panel?run=0&place=0&after=0&generation=0")[1])
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
    ["/x", "/../../etc/passwd", "/panel", "/panel?run=0&place=99&after=0&generation=0",
     "/panel?run=2&place=0&after=0&generation=0", "/panel?run=-1&place=0&after=0&generation=0",
     "/panel?run=0&place=x&after=0&generation=0", "/state?seen0=x", "/spectra?run=0", "/state/",
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
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", server.url)
    assert server._http.server_address[0] == "127.0.0.1"


def test_a_browser_that_leaves_is_not_complained_of(server, capfd):
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port_of(server))) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert ask(server, "/")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_port_in_use_is_refused_with_what_to_do(server, tmp_path):
    port = port_of(server)
    with pytest.raises(Refusal, match=f"of {port} the system says that another program uses it"):
        Server([tmp_path / "a.run"], port=port)


def test_the_port_is_free_after_it(server, tmp_path):
    port = port_of(server)
    server.close()
    with Server([tmp_path / "a.run"], port=port) as again:
        assert port_of(again) == port
