"""Chunks of a stream to lines.

Promises: a stream may be cut anywhere, in the middle of a UTF-8 sequence too, and any chunking gives the same lines;
there is no line limit below ``LINE_LIMIT`` bytes, and a longer line is a ``StreamCorrupt``, never a silent loss.
"""

LINE_LIMIT = 16 * 1024 * 1024
"""Longest line of a watch stream in bytes; etcd keeps objects below 1.5 MB, so only garbage is longer."""


class StreamCorrupt(Exception):
    """The stream is not a sequence of JSON lines: a fault of the connection, not of an object."""


class LineSplitter:
    """Cuts a stream of chunks into lines; keeps at most ``LINE_LIMIT`` bytes of an unfinished one."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that ``chunk`` completes, without line ends and blank lines."""
        *complete, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for part in complete:
            line = bytes(self._rest) + part if self._rest else part
            self._rest.clear()
            if line.strip():
                lines.append(line)
        self._rest += rest
        if len(self._rest) > LINE_LIMIT:
            raise StreamCorrupt(f"a line of the stream is longer than {LINE_LIMIT} bytes")
        return lines

    @property
    def pending(self) -> bool:
        """Tell whether an unfinished line is held: a stream that ends like this was cut."""
        return bool(self._rest.strip())
