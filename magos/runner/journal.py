"""The log of a stage: its container's standard output, every byte of it redacted.

Own lines start with ``[magos-job] ``; output of tools passes as it is. Nothing ever reads the log back: it decides
nothing, so lines that a configuration forges are only text.
"""

import os
from typing import Final

from magos.runner.redact import Redactor, redact

__all__ = ["Journal"]

_PREFIX: Final = "[magos-job] "
_KEPT_TAIL: Final = 64 * 1024


class Journal:
    """Writes to the file descriptor ``stream``; ``forms`` are the byte sequences to mask."""

    def __init__(self, forms: tuple[bytes, ...] = (), stream: int = 1) -> None:
        self._forms = forms
        self._stream = stream
        self._redactor = Redactor(forms)
        self._tail = bytearray()
        self._at_line_start = True

    def say(self, text: str) -> None:
        """Write a line of our own for every line of ``text``."""
        # What the redactor holds of an unfinished line stays there: cutting it could cut a secret in two.
        if not self._at_line_start:
            self._write(b"\n")
        lines = redact(text, self._forms).splitlines() or [""]
        self._write("".join(f"{_PREFIX}{line}\n" for line in lines).encode("utf-8", "replace"))

    def masked(self, text: str) -> str:
        """Return ``text`` as it may be shown."""
        return redact(text, self._forms)

    def mask_too(self, forms: tuple[bytes, ...]) -> None:
        """Mask further byte sequences from now on; only between two commands."""
        self._forms = tuple(sorted({*self._forms, *forms}))
        self._redactor = Redactor(self._forms)

    def begin_output(self) -> None:
        """Forget the tail: a new command starts."""
        self._tail.clear()

    def pass_on(self, chunk: bytes) -> None:
        """Write output of a tool, as far as its lines are finished."""
        self._keep(self._redactor.feed(chunk))

    def end_output(self) -> bytes:
        """Write what is left and return the last 64 KiB of the command's output, redacted."""
        self._keep(self._redactor.finish())
        return bytes(self._tail)

    def _keep(self, output: bytes) -> None:
        self._tail += output
        del self._tail[:-_KEPT_TAIL]
        self._write(output)

    def _write(self, output: bytes) -> None:
        rest = memoryview(output)
        while rest:
            rest = rest[os.write(self._stream, rest) :]
        if output:
            self._at_line_start = output.endswith(b"\n")
