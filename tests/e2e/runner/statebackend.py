"""A state server for the ``http`` backend that counts what is done to it and can hold an operation back.

Locks are kept as the backend's protocol wants them: LOCK answers 423 with the holder's information, UNLOCK needs the
holder's ID, a write needs it too while a lock is held.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

__all__ = ["StateServer", "state_server"]

_LONGEST_HOLD = 60.0
_OK, _CONFLICT, _NO_CONTENT, _LOCKED, _REFUSED = 200, 409, 204, 423, 507


class Hold:
    """One operation that waits in the server until it is let go."""

    def __init__(self, after: int) -> None:
        self.passing = after
        self.reached = threading.Event()
        self.go = threading.Event()
        self.answered = threading.Event()

    def let_go(self) -> None:
        """Let the operation be done, and wait until it is: whoever asked for it may be gone."""
        self.go.set()
        assert self.answered.wait(_LONGEST_HOLD)


class StateServer:
    """What the server knows. ``state`` is the content, ``lock`` the information of who holds the lock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.state: bytes | None = None
        self.lock: dict[str, Any] | None = None
        self.counts: Counter[str] = Counter()
        self.logins: set[str] = set()
        self.refuse_writes = False
        self.guard = threading.Lock()
        self._holds: dict[str, Hold] = {}

    @property
    def backend(self) -> str:
        """The backend block that uses this server."""
        settings = {
            "address": self.url,
            "lock_address": self.url,
            "unlock_address": self.url,
            "lock_method": "LOCK",
            "unlock_method": "UNLOCK",
        }
        lines = "".join(f'    {name} = "{value}"\n' for name, value in settings.items())
        return f'terraform {{\n  backend "http" {{\n{lines}    retry_max = 0\n  }}\n}}\n'

    @property
    def resources(self) -> list[str]:
        """Names of the resources that have an instance in the state."""
        if not self.state:
            return []
        return sorted(each["name"] for each in json.loads(self.state)["resources"] if each["instances"])

    @property
    def holds_back(self) -> bool:
        """Whether any operation waits just now."""
        return any(hold.reached.is_set() and not hold.go.is_set() for hold in self._holds.values())

    @contextmanager
    def hold(self, operation: str, after: int = 0) -> Iterator[Hold]:
        """Hold back one ``operation`` (GET, POST, LOCK, UNLOCK), the first ``after`` of them excepted."""
        held = Hold(after)
        self._holds[operation] = held
        try:
            yield held
        finally:
            held.go.set()
            self._holds.pop(operation, None)

    def wait(self, operation: str) -> Hold | None:
        """Wait here if the operation is to be held back; return what held it."""
        held = self._holds.get(operation)
        if held is None:
            return None
        with self.guard:
            held.passing -= 1
            mine = held.passing == -1
        if not mine:
            return None
        held.reached.set()
        held.go.wait(_LONGEST_HOLD)
        return held


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: ClassVar[StateServer]
    _held: Hold | None = None

    def do_GET(self) -> None:
        self._begin()
        content = self.served.state
        self._answer(_NO_CONTENT if content is None else _OK, content or b"")

    def do_POST(self) -> None:
        body = self._begin()
        served = self.served
        [lock_id] = parse_qs(urlsplit(self.path).query).get("ID", [""])
        with served.guard:
            if served.refuse_writes:
                self._answer(_REFUSED, b"the disk is full")
            elif served.lock is not None and served.lock["ID"] != lock_id:
                self._answer(_LOCKED, json.dumps(served.lock).encode())
            else:
                served.state = body
                served.counts["written"] += 1
                self._answer(_OK)

    def do_LOCK(self) -> None:
        wanted = json.loads(self._begin())
        served = self.served
        with served.guard:
            if served.lock is not None:
                served.counts["refused"] += 1
                self._answer(_LOCKED, json.dumps(served.lock).encode())
            else:
                served.lock = wanted
                served.counts["locked"] += 1
                self._answer(_OK)

    def do_UNLOCK(self) -> None:
        body = self._begin()
        served = self.served
        with served.guard:
            if served.lock is None or json.loads(body)["ID"] != served.lock["ID"]:
                self._answer(_CONFLICT)
            else:
                served.lock = None
                served.counts["unlocked"] += 1
                self._answer(_OK)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Nothing is printed."""

    def _begin(self) -> bytes:
        self.served.counts[self.command] += 1
        self.served.logins.add(self.headers.get("Authorization", ""))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._held = self.served.wait(self.command)
        return body

    def _answer(self, status: int, content: bytes = b"") -> None:
        try:
            self.send_response(status)
            if status != _NO_CONTENT:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:  # whoever asked is gone
            self.close_connection = True
        finally:
            if self._held is not None:
                self._held.answered.set()


@contextmanager
def state_server() -> Iterator[StateServer]:
    """Serve one state on loopback for the length of the block."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        served = StateServer(f"http://127.0.0.1:{server.server_port}/state")
        handler.served = served  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, name="state server", daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
