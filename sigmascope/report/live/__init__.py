"""Run files as a page that follows them, and as a file."""

from sigmascope.report.live.feeds import Feed
from sigmascope.report.live.files import history, written
from sigmascope.report.live.histories import History
from sigmascope.report.live.servers import Server

__all__ = ["Feed", "History", "Server", "history", "written"]
