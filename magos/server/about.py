"""What the page of settings tells about this server besides what the context of routes shows."""

from msgspec import Struct

from magos.history.settings import Retention


class About(Struct, frozen=True, kw_only=True):
    """How one logs in here, and how long is kept what is recorded. Made by the composition root from the settings."""

    admin: bool
    """True if the admin account can log in."""
    issuer: str
    """URL of the identity provider, empty if there is none."""
    retention: Retention | None
    """None where runs are not recorded."""
