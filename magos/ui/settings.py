"""The page of settings: who I am, what I may do, and what this server is."""

from datetime import datetime

from msgspec import Struct

from magos.ui.times import Moment, moment

RIGHTS = ("list Workspaces", "read logs", "reconcile", "approve")
"""The rights that the page lists, in the order of ``Namespace.allowed``."""

GUIDES = (
    ("installation.md", "Installation"),
    ("authentication.md", "Who may use the API and the web UI"),
    ("web-ui.md", "The web UI"),
    ("command-line.md", "Everyday use of the command line"),
    ("history.md", "The history of runs"),
    ("log-bucket.md", "The bucket for logs"),
    ("policies.md", "Policies on plans"),
    ("private-modules.md", "Private modules and submodules"),
    ("air-gapped.md", "Without the internet"),
)
"""Name and title of the guides in ``docs/guides``, most asked for first."""


class NamespaceRights(Struct, frozen=True, kw_only=True):
    """What the caller may do in a namespace."""

    namespace: str
    allowed: tuple[bool, ...]


class Part(Struct, frozen=True, kw_only=True):
    """A part of the server and how it stands."""

    name: str
    tone: str
    text: str


class SettingsView(Struct, frozen=True, kw_only=True):
    """The page."""

    username: str
    kind: str
    subject: str
    expires: Moment | None
    titles: tuple[str, ...]
    namespaces: tuple[NamespaceRights, ...]
    more: int
    parts: tuple[Part, ...]
    guides: tuple[tuple[str, str], ...]


class Person(Struct, frozen=True, kw_only=True):
    """Who looks at the page, as the server has verified it."""

    username: str
    kind: str
    subject: str
    expires_at: datetime | None


def view(
    person: Person, namespaces: tuple[NamespaceRights, ...], more: int, parts: tuple[Part, ...], now: datetime
) -> SettingsView:
    """Return the page; ``more`` is the number of namespaces that are left out."""
    return SettingsView(
        username=person.username,
        kind=person.kind,
        subject=person.subject,
        expires=moment(person.expires_at, now),
        titles=RIGHTS,
        namespaces=namespaces,
        more=more,
        parts=parts,
        guides=GUIDES,
    )
