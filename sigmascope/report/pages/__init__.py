"""Results as interactive pages."""

from sigmascope.report.pages.landscape import landscape_page
from sigmascope.report.pages.profile import page
from sigmascope.report.pages.scan import scan_page

__all__ = ["landscape_page", "page", "scan_page"]
