"""Results as interactive pages."""

from sigmascope.report.pages.html import require_plots
from sigmascope.report.pages.landscape import landscape_page
from sigmascope.report.pages.profile import page
from sigmascope.report.pages.scan import scan_page

__all__ = ["landscape_page", "page", "require_plots", "scan_page"]
