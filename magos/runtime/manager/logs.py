"""Logs: one JSON object per line with ``time``, ``level``, ``logger``, ``message`` and whatever is bound.

Lines are made where they are logged, which takes microseconds, and written by a thread: a pipe without a reader must
not stop the loop. If 10,000 lines wait, further ones are dropped and their number is logged. What the standard
library's loggers say comes out in the same form, from warnings on.
"""

import io
import json
import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec
import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
CAPACITY = 10_000
_LAST_SECONDS = 2.0
_OWN = ("time", "level", "logger", "message")

_encoder = msgspec.json.Encoder(enc_hook=str)


class Stream(Protocol):
    """Where lines go."""

    def write(self, data: bytes, /) -> Any:
        """Write all of ``data``; may block."""
        ...

    def flush(self) -> None:
        """Hand over what is buffered."""
        ...


class LineWriter:
    """Writes lines from a thread; ``put`` never blocks and may be called from any thread."""

    def __init__(self, stream: Stream, capacity: int = CAPACITY) -> None:
        self._stream = stream
        self._capacity = capacity
        self._lines: deque[bytes] = deque()
        self._dropped = 0
        self._wanted = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._write, name="logs", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queue a line without its line end, or drop it if too many wait."""
        if len(self._lines) >= self._capacity:
            self._dropped += 1
        else:
            self._lines.append(line)
        self._wanted.set()

    def close(self) -> None:
        """Write what waits, for at most two seconds."""
        self._closing = True
        self._wanted.set()
        self._thread.join(_LAST_SECONDS)

    def _write(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if self._dropped:
                lines.append(render("warning", __name__, "log lines were dropped", {"dropped": self._dropped}))
                self._dropped = 0
            try:
                if lines:
                    self._stream.write(b"\n".join([*lines, b""]))
                    self._stream.flush()
            except (OSError, ValueError):
                return  # the reader is gone, and with it the only place for a report
            if self._closing and not self._lines:
                return


def render(level: str, logger: str, message: str, fields: MutableMapping[str, Any]) -> bytes:
    """Return one line; a field that would hide one of our own keeps its value under ``field_<name>``."""
    error = fields.pop("exc_info", None)
    line: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": level,
        "logger": logger,
        "message": message,
    }
    for key, value in fields.items():
        line[f"field_{key}" if key in _OWN else key] = value
    if text := _traceback(error):
        line["traceback"] = text
    try:
        return _encoder.encode(line)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):  # odd keys, lone surrogates, endless nesting
        return json.dumps({str(key): repr(value) for key, value in line.items()}).encode()


def _traceback(error: Any) -> str:
    if error is True:
        error = sys.exc_info()[1]
    elif isinstance(error, tuple):
        error = error[1]
    return "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""


class _Logger:
    """What structlog hands finished lines to."""

    def __init__(self, writer: LineWriter, name: str = "magos") -> None:
        self.name = name
        self._put = writer.put

    def _line(self, line: bytes) -> None:
        self._put(line)

    debug = info = warning = error = critical = exception = msg = _line


def _to_line(logger: Any, method: str, event: MutableMapping[str, Any]) -> tuple[tuple[bytes], dict[str, Any]]:
    if method == "exception":
        method = "error"
        event.setdefault("exc_info", True)
    message = str(event.pop("event", ""))
    return (render(method, logger.name, message, event),), {}


class _Handler(logging.Handler):
    """Brings the standard library's records into the same form."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record."""
        fields = {"exc_info": record.exc_info} if record.exc_info else {}
        self._writer.put(render(record.levelname.lower(), record.name, record.getMessage(), fields))


@contextmanager
def logging_to(stream: Stream | None = None, level: str = "info") -> Iterator[None]:
    """Log from ``level`` on to ``stream`` (standard error if None) inside of the context, which ends by writing all."""
    writer = LineWriter(_standard_error() if stream is None else stream)
    handler = _Handler(writer)
    root = logging.getLogger()
    before = root.level
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, _to_line],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *names: _Logger(writer, *names[:1]),
        cache_logger_on_first_use=False,
    )
    root.addHandler(handler)
    root.setLevel(max(logging.WARNING, LEVELS[level]))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        structlog.reset_defaults()
        writer.close()


def _standard_error() -> Stream:
    return sys.stderr.buffer if hasattr(sys.stderr, "buffer") else io.BytesIO()
