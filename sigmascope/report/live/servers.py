"""A page on this machine that follows run files."""

import errno
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sigmascope.gate import Closing, Refusal
from sigmascope.report.live.feeds import Feed
from sigmascope.report.live.histories import names
from sigmascope.report.pages.run import live_text

LOOPBACK = "127.0.0.1"
HOSTS = frozenset({LOOPBACK, "localhost", "[::1]"})  # which a page of ours is asked for by
PAUSE = 0.5  # seconds between looks at the files
LONGEST = 1000  # characters of a path that is answered
IDLE = 60.0  # seconds after which a silent connection is closed
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)


class Server(Closing):
    """Serves the page of run files on loopback, and reads what is new in them.

    It answers GET on four paths, to requests that name this machine as their host, and changes
    nothing.

    Args:
        paths: One run file or two; one that does not exist yet is waited for.
        port: On which; 0 for any that is free.

    Raises:
        Refusal: If the port cannot be had.
    """

    def __init__(self, paths: Sequence[Path], *, port: int = 0) -> None:
        named = zip(paths, names(paths), strict=True)
        self.feeds = tuple(Feed(path, name) for path, name in named)
        self._ended = threading.Event()
        handler = type("Handler", (_Handler,), {"feeds": self.feeds, "ended": self._ended})
        try:
            self._http = _Http((LOOPBACK, port), handler)
        except OSError as error:
            raise Refusal(_refusal(port, error)) from error
        self.url = f"http://{LOOPBACK}:{self._http.server_address[1]}/"
        self._threads = [threading.Thread(target=self._follow, daemon=True)]
        self._threads[0].start()

    def serve(self) -> None:
        """Answer until `close` is called from another thread, or until interrupted."""
        self._http.serve_forever(poll_interval=0.1)

    def start(self) -> "Server":
        """Answer in a thread."""
        self._threads.append(threading.Thread(target=self.serve, daemon=True))
        self._threads[-1].start()
        return self

    def close(self) -> None:
        """Answer nobody any more, and let go of port and files."""
        self._ended.set()
        if len(self._threads) > 1:
            self._http.shutdown()
        self._http.server_close()
        for thread in self._threads:
            thread.join()

    def _follow(self) -> None:
        while not self._ended.is_set():
            more = [feed.look() for feed in self.feeds]
            self._ended.wait(0.0 if any(more) else PAUSE)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has left; of a fault of ours where it is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    feeds: tuple[Feed, ...] = ()
    ended: threading.Event
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sigmascope", ""
    timeout = IDLE

    def do_GET(self) -> None:
        """Answer one request."""
        if self.ended.is_set():  # on a connection that was kept
            self.close_connection = True
            return
        host = self.headers.get("Host", "").rpartition(":")
        name = host[0] if host[2].isdecimal() else self.headers.get("Host", "")
        if name.lower() not in HOSTS:  # a page elsewhere whose name was led to this machine
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", "Ask by 127.0.0.1.")
            return
        if len(self.path) > LONGEST:
            self._send(HTTPStatus.REQUEST_URI_TOO_LONG, "text/plain", "Too long.")
            return
        asked = urlsplit(self.path)
        try:
            found = self._answer(asked.path, dict(parse_qsl(asked.query)))
        except (KeyError, ValueError, IndexError):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "There is nothing here.")
            return
        if isinstance(found, str):
            self._send(HTTPStatus.OK, "text/html", found)
        else:
            text = json.dumps(found, allow_nan=False, separators=(",", ":"))
            self._send(HTTPStatus.OK, "application/json", text)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: standard error is for what a person should read."""

    def _answer(self, path: str, query: Mapping[str, str]) -> Any:
        number = lambda name: _count(query[name])
        if path == "/":
            return live_text([feed.history.name for feed in self.feeds])
        if path == "/state":
            seen = [int(query.get(f"seen{i}", -1)) for i in range(len(self.feeds))]
            both = zip(self.feeds, seen, strict=True)
            return {"runs": [feed.state(version) for feed, version in both]}
        feed = self.feeds[number("run")]
        if path == "/panel":
            return feed.panel(number("place"), number("after"), number("generation"))
        if path == "/spectra":
            return feed.spectra(number("place"), number("generation"))
        raise KeyError(path)

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _count(word: str) -> int:
    number = int(word)
    if number < 0:
        raise ValueError(word)
    return number


def _refusal(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        what = "another program uses it"
    elif error.errno == errno.EACCES:
        what = "this user may not use it"
    else:
        what = error.strerror or str(error)
    return (
        f"The page needs a port of {LOOPBACK} that is free; of {port} the system says that {what}. "
        "Name another with `--port`, or leave it out, and a free one is taken."
    )
