"""The log of a stage, and its one masking door: every text that leaves the process is masked here (spec §7.6, I10).

The log is the container's standard output, every byte of it redacted. Own lines start with ``[magos-job] ``; output of
tools passes as it is. Nothing ever reads the log back: it decides nothing, so lines that a configuration forges are
only text. What goes elsewhere, into a status or the termination message, passes :meth:`Journal.masked`, and what Python
itself writes to standard error passes :meth:`Journal.as_stderr`.
"""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from magos.masking import message
from magos.masking.redact import Redactor, SecretForms, redact, redact_echo

_PREFIX: Final = "[magos-job] "
_KEPT_TAIL: Final = 64 * 1024

Look = Callable[[], tuple[bytes, ...]]


class Journal:
    """Writes to the file descriptor ``stream``; ``forms`` are the byte sequences to mask.

    Where ``echoes``, messages may quote a server that was sent the secrets; pieces of them are masked in messages then.
    """

    def __init__(self, forms: Iterable[bytes] = (), stream: int = 1, *, echoes: bool = False) -> None:
        self._forms = SecretForms(forms)
        self._redact = redact_echo if echoes else redact
        self._stream = stream
        self._redactor = Redactor(self._forms)
        self._look: Look | None = None
        self._tail = bytearray()
        self._at_line_start = True

    def say(self, text: str) -> None:
        """Write a line of our own for every line of ``text``; only what is not our own words in it is masked."""
        # What the redactor holds of an unfinished line stays there: cutting it could cut a secret in two.
        lines = self.masked(text).splitlines() or [""]
        if not self._at_line_start:
            self._write(b"\n")
        self._write("".join(f"{_PREFIX}{line}\n" for line in lines).encode("utf-8", "replace"))

    def masked(self, text: str) -> str:
        """Return ``text`` as it may be shown; the words of a ``Message`` that are our own stay as they are."""
        self._refresh()
        return message.masked(text, lambda part: self._redact(part, self._forms))

    def mask_too(self, forms: Iterable[bytes]) -> None:
        """Mask further byte sequences from now on, also in output that has arrived and is held."""
        fresh = tuple(forms)
        if fresh:
            self._forms = self._forms.and_also(fresh)
            self._redactor.use(self._forms)

    def watch(self, look: Look) -> None:
        """Ask ``look`` for secrets that are new, now and before anything is shown."""
        self._look = look
        self._refresh()

    def begin_output(self) -> None:
        """Forget the tail: a new command starts."""
        self._tail.clear()

    def pass_on(self, chunk: bytes) -> None:
        """Write output of a tool, as far as its lines are finished."""
        self._refresh()
        self._keep(self._redactor.feed(chunk))

    def end_output(self) -> bytes:
        """Write what is left and return the last 64 KiB of the command's output, redacted."""
        self._refresh()
        self._keep(self._redactor.finish())
        return bytes(self._tail)

    @contextmanager
    def as_stderr(self) -> Iterator[None]:
        """Let everything that Python writes to standard error pass this door: warnings, library logs, tracebacks."""
        before, door = sys.stderr, _Door(self)
        sys.stderr = door
        try:
            yield
        finally:
            door.finish()
            sys.stderr = before

    def _refresh(self) -> None:
        if self._look is not None:
            self.mask_too(self._look())

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


class _Door(io.TextIOBase):
    """A text stream whose lines the journal says."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._line = ""

    def write(self, text: str) -> int:
        """Say the lines that ``text`` finishes."""
        *lines, self._line = (self._line + text).split("\n")
        if lines:
            self._journal.say("\n".join(lines))
        return len(text)

    def finish(self) -> None:
        """Say what is left."""
        if self._line:
            self._journal.say(self._line)
            self._line = ""
