"""Chunks of a log as lines, in bounded memory."""

_LONGEST = 1 << 20


class Lines:
    """Puts chunks, which may be cut anywhere, together to lines. A line of more than 1 MiB comes out in parts."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that end in this chunk, without their ends."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST:
            lines.append(self._rest)
            self._rest = b""
        return [_text(line) for line in lines]

    def finish(self) -> list[str]:
        """Return what stands behind the last end of a line; the log has ended."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
