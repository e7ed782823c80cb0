"""A node and an API server in front of it, as far as logs are concerned: behind the real client, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from magos.api.kube import Pod
from magos.api.meta import ObjectMeta
from magos.runtime.client.client import ApiClient
from magos.runtime.client.transport import HttpRequest, HttpResponse, HttpStream, TransportError

NAMESPACE, NAME, UID = "shop", "web-plan-1a2b3c4d-x7k2p", "5d2f"
SECOND = 1_000_000_000
BEGIN = 1_796_143_168 * SECOND
"""The time of a first line, in nanoseconds since 1970."""


class Entry(Struct, frozen=True):
    """A line as the node keeps it; ``newline`` is False for a last one that the container did not end."""

    at: int
    text: bytes
    newline: bool = True

    @property
    def shown(self) -> bytes:
        second = datetime.fromtimestamp(self.at // SECOND, UTC)
        stamp = f"{second:%Y-%m-%dT%H:%M:%S}.{self.at % SECOND:09d}Z "
        return stamp.encode() + self.text + (b"\n" if self.newline else b"")


class Break(Struct, frozen=True):
    """A response ends after so many bytes: with an error, or in order although there is more."""

    after: int
    in_order: bool = False


class Container(Struct):
    """What a node knows of a container. ``state`` is a ``containerStatus.state``."""

    state: dict[str, Any] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    refusal: tuple[int, str] | None = None


class Node:
    """The transport of a client that reads logs; each opened log meets the next break, if there is one left."""

    def __init__(self, *breaks: Break, chunk: int = 7) -> None:
        self.containers: dict[str, Container] = {}
        self.breaks = list(breaks)
        self.chunk = chunk
        self.opened: list[dict[str, str]] = []
        self.looks = 0
        self.phase = "Running"
        self.uid = UID
        self.most_opened = 100
        """A reader that opens logs more often reads without end."""
        self.down = 0
        """How many requests fail without an answer."""
        self.client = ApiClient(self)
        self.pod = Pod(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, uid=UID))

    def ended(self, name: str, *entries: Entry) -> Container:
        self.containers[name] = Container({"terminated": {"exitCode": 0}}, list(entries))
        return self.containers[name]

    async def request(self, request: HttpRequest) -> HttpResponse:
        assert request.path == f"/api/v1/namespaces/{NAMESPACE}/pods/{NAME}"
        self.looks += 1
        self._answer_at_all()
        if not self.uid:
            return _status(404, f'pods "{NAME}" not found')
        statuses = [{"name": name, "state": container.state} for name, container in self.containers.items()]
        pod = {
            "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": self.uid},
            "status": {"phase": self.phase, "initContainerStatuses": statuses},
        }
        return HttpResponse(status=200, body=msgspec.json.encode(pod))

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        self._answer_at_all()
        query = dict(request.query)
        assert request.path == f"/api/v1/namespaces/{NAMESPACE}/pods/{NAME}/log"
        assert query.get("timestamps") == "true"
        self.opened.append(query)
        assert len(self.opened) < self.most_opened, "the log is opened again without end"
        container = self.containers.get(query["container"], Container(refusal=(400, "waiting to start")))
        if not self.uid:
            container = Container(refusal=(404, f'pods "{NAME}" not found'))
        if container.refusal is not None:
            answer = _status(*container.refusal)
            yield HttpStream(status=answer.status, headers={}, chunks=_once(answer.body))
        else:
            since = int(datetime.fromisoformat(query["sinceTime"]).timestamp()) * SECOND if "sinceTime" in query else 0
            chunks = self._chunks(container, since, follow=query.get("follow") == "true")
            yield HttpStream(status=200, headers={}, chunks=chunks)

    async def aclose(self) -> None:
        pass

    def _answer_at_all(self) -> None:
        if self.down:
            self.down -= 1
            raise TransportError("connection refused", sent=False)

    async def _chunks(self, container: Container, since: int, *, follow: bool) -> AsyncIterator[bytes]:
        end = self.breaks.pop(0) if self.breaks else None
        left = None if end is None else end.after
        async for entry in _entries(container, follow=follow):
            if entry.at < since:
                continue
            for chunk in _cut(entry.shown, self.chunk):
                sent = chunk if left is None else chunk[:left]
                if sent:
                    yield sent
                if left is not None:
                    left -= len(sent)
                    if left == 0:
                        if end is not None and end.in_order:
                            return
                        raise TransportError("the connection broke", sent=True)


def lines(*texts: bytes, begin: int = BEGIN, step: int = SECOND // 3) -> list[Entry]:
    return [Entry(begin + number * step, text) for number, text in enumerate(texts)]


async def _entries(container: Container, *, follow: bool) -> AsyncIterator[Entry]:
    position = 0
    while True:
        ended = "terminated" in container.state
        while position < len(container.entries):
            yield container.entries[position]
            position += 1
        if ended or not follow:
            return
        await asyncio.sleep(0.1)


def _cut(content: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _status(code: int, message: str) -> HttpResponse:
    body = {"kind": "Status", "code": code, "message": message, "reason": "NotFound" if code == 404 else "BadRequest"}
    return HttpResponse(status=code, body=msgspec.json.encode(body))
