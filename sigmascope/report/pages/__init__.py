"""Interactive pages: what all of them share."""

from sigmascope.report.pages.html import require_plots, write_page

__all__ = ["require_plots", "write_page"]
