"""Results as interactive pages."""

from sigmascope.report.pages.landscape import landscape_page
from sigmascope.report.pages.profile import page

__all__ = ["landscape_page", "page"]
