"""What stands around every page: who looks, in which theme, and what is refreshed while they look."""

from collections.abc import Iterable

from msgspec import Struct

NAVIGATION = (
    ("Home", "/", "home", "h"),
    ("Workspaces", "/workspaces", "workspace", "w"),
    ("Projects", "/projects", "project", "p"),
    ("Rollouts", "/rollouts", "rollout", "r"),
    ("Variable sets", "/variable-sets", "variables", "v"),
    ("Settings", "/settings", "settings", "s"),
)
"""Title, path, icon and the key after ``g`` of the sections."""


class Stream(Struct, frozen=True, kw_only=True):
    """Changes that put a page out of date."""

    path: str
    """Path of a stream of changes, below the root."""
    name: str = ""
    """Name of the one object whose changes count. Empty for all of the stream."""
    mark: str = ""
    """The :func:`mark` of the objects that are shown: the page is out of date if the stream begins with others."""


class Live(Struct, frozen=True, kw_only=True):
    """What tells a page that it is out of date: up to two streams, or the time where there are none."""

    streams: tuple[Stream, ...] = ()
    seconds: int = 15


def mark(versions: Iterable[str]) -> str:
    """Return a number that tells one set of resource versions from another; app.js reckons it in the same way."""
    total = 0
    for version in versions:
        number = 0
        for character in version:
            number = (number * 31 + ord(character)) & 0xFFFFFFFF
        total = (total + number) & 0xFFFFFFFF
    return str(total)


class Shell(Struct, frozen=True, kw_only=True):
    """Everything that a page needs besides its own view."""

    root: str
    """Path under which the UI is served, without a slash at the end: empty at the root of a host."""
    path: str
    """Path and query of this page, below the root."""
    version: str
    assets: str
    """Digest of the static files, part of their addresses: they may be kept for ever."""
    username: str = ""
    csrf: str = ""
    theme: str = ""
    """``dark`` or ``light`` if somebody has chosen, else empty: the system decides."""
    collapsed: bool = False
    now: str = ""
    """Time of the server, RFC 3339: clocks of browsers may be wrong."""
    live: Live | None = None

    @property
    def section(self) -> str:
        """The path of the section that this page belongs to."""
        first = self.path.partition("?")[0].split("/")[1] if self.path.startswith("/") else ""
        return f"/{first}"
