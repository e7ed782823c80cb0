"""Reading the API server's audit log: who asked for what, and how often.

The log is one JSON object a line (``audit.k8s.io/v1`` Event, level Metadata, stage RequestReceived left out). A
long-running request (watch, log) appears twice, at the start of its answer and at its end, under one audit ID: it is
counted once. The server writes an entry after it has answered, so a count may lag the client by a moment.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

__all__ = ["WRITE_VERBS", "AuditLog", "Request", "count_by_user_and_verb"]

WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
"""Verbs that change something (audit names; ``create`` includes reviews and token requests)."""


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _ObjectRef(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    api_group: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    audit_id: str = msgspec.field(name="auditID")
    verb: str
    request_uri: str = msgspec.field(name="requestURI", default="")
    user: _User = _User()
    impersonated_user: _User | None = None
    user_agent: str = ""
    object_ref: _ObjectRef = _ObjectRef()
    response_status: _Status = _Status()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request to the API server.

    ``resource`` is the plural (``workspaces``), with ``/status`` and the like appended for a subresource; it is empty
    for a request that is about no resource (health, discovery). ``code`` is the HTTP status, 0 while unknown.
    """

    user: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    uri: str
    user_agent: str
    code: int


def _request(entry: _Entry) -> Request:
    ref = entry.object_ref
    return Request(
        user=(entry.impersonated_user or entry.user).username,
        verb=entry.verb,
        group=ref.api_group,
        resource=f"{ref.resource}/{ref.subresource}" if ref.subresource else ref.resource,
        namespace=ref.namespace,
        name=ref.name,
        uri=entry.request_uri,
        user_agent=entry.user_agent,
        code=entry.response_status.code,
    )


class AuditLog:
    """The audit log of a running API server; reading does not disturb it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._decoder = msgspec.json.Decoder(_Entry)

    def mark(self) -> int:
        """The present end of the log, to be given to :meth:`requests` later."""
        return self.path.stat().st_size if self.path.exists() else 0

    def requests(self, since: int = 0) -> list[Request]:
        """The requests written after the mark ``since``, in order, each once; a half-written last line is left out."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as stream:
            stream.seek(since)
            lines = stream.read().split(b"\n")[:-1]
        entries = {entry.audit_id: entry for entry in map(self._decoder.decode, lines)}
        return [_request(entry) for entry in entries.values()]


def count_by_user_and_verb(requests: Iterable[Request]) -> Counter[tuple[str, str]]:
    """How many requests each user made with each verb."""
    return Counter((request.user, request.verb) for request in requests)
