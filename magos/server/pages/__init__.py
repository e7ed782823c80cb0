"""The pages of the web UI: routes that read what the caller may see, and render it (spec §10)."""

from magos.server.pages.refusal import refusal_pages
from magos.server.pages.routes import page_routes

__all__ = ["page_routes", "refusal_pages"]
