"""Takes secret values out of a stream of output, and out of messages (spec §7.6, invariant I10).

What is recognised is said in :mod:`magos.masking.secretforms`, and for changed white space in
:mod:`magos.masking.wrapped`. Every maximal run of bytes covered by recognised forms becomes ``***``. How the stream is
cut into chunks makes no difference, lines of any length and bytes that are no UTF-8 pass, and memory stays bounded by
the longest form and one line of ``LONGEST_HELD`` bytes. Lines are passed on as soon as they are finished, except from a
place on where a form has begun that the next line may complete.
"""

import re
from collections.abc import Iterable
from typing import Final

from magos.masking.matching import Matcher
from magos.masking.wrapped import UnwrappedForms, Unwrapper

MASK: Final = b"***"
LONGEST_HELD: Final = 64 * 1024
"""Bytes of an unfinished line that are held back so that lines appear whole; longer lines are passed on in parts."""
_BREAKS: Final = re.compile(rb"\s+|\\[nrt]|\x1b\[[0-9;]*[A-Za-z]|[\x00-\x1f\x7f]")
"""What may break a text anywhere: white space, its escapes, colours, control characters."""
_SHORTEST_BROKEN: Final = 8
_PIECE: Final = 16
_STEP: Final = 8


class SecretForms:
    """Forms made ready to be looked for. What is costly is made when it is needed first."""

    def __init__(self, forms: Iterable[bytes] = ()) -> None:
        self.exact = Matcher(forms)
        self._unwrapped: UnwrappedForms | None = None
        self._unbroken: tuple[bytes, ...] | None = None

    @property
    def unwrapped(self) -> UnwrappedForms:
        """Those with white space inside."""
        if self._unwrapped is None:
            self._unwrapped = UnwrappedForms(self.exact.forms)
        return self._unwrapped

    @property
    def unbroken(self) -> tuple[bytes, ...]:
        """All without any white space."""
        if self._unbroken is None:
            squeezed = (_BREAKS.sub(b"", form) for form in self.exact.forms)
            self._unbroken = tuple({form for form in squeezed if len(form) >= _SHORTEST_BROKEN})
        return self._unbroken

    def and_also(self, forms: Iterable[bytes]) -> "SecretForms":
        """Return these and ``forms``."""
        return SecretForms((*self.exact.forms, *forms))


class Redactor:
    """Redacts one stream: :meth:`feed` chunks, :meth:`finish` once, write out what they return."""

    def __init__(self, forms: Iterable[bytes] | SecretForms) -> None:
        self._forms = forms if isinstance(forms, SecretForms) else SecretForms(forms)
        self._unwrapper = Unwrapper(self._forms.unwrapped)
        self._held = bytearray()
        self._lines = 0  # where the last finished line of _held ends
        self._examined = 0  # every form that begins before is in _spans
        self._spans: list[tuple[int, int]] = []
        self._at_line_start = True
        self._masking = False  # the last byte passed on was inside a covered run, whose mask is out already

    def feed(self, chunk: bytes) -> bytes:
        """Return the redacted bytes that can be passed on now: whole lines, or parts of an overlong one."""
        self._held += chunk
        self._lines = max(self._lines, self._held.rfind(b"\n", len(self._held) - len(chunk)) + 1)
        end = self._lines
        if len(self._held) - end > LONGEST_HELD:
            end = max(end, len(self._held) - max(self._forms.exact.longest - 1, 0))
        if end <= self._examined:
            return b""
        self._examine(end)
        return self._release(min(end, self._unwrapper.settled()))

    def finish(self) -> bytes:
        """Return the redacted rest of the stream and forget everything."""
        self._examine(len(self._held), final=True)
        rest = self._release(len(self._held))
        self._unwrapper.begin(at_line_start=True)
        self._lines = self._examined = 0
        self._spans.clear()
        self._at_line_start, self._masking = True, False
        return rest

    def use(self, forms: SecretForms) -> None:
        """Look for ``forms``, which hold all that were looked for before, from now on and in what is still held."""
        self._forms = forms
        self._unwrapper = Unwrapper(self._forms.unwrapped)
        self._unwrapper.begin(at_line_start=self._at_line_start)
        self._examined = 0

    def _examine(self, end: int, *, final: bool = False) -> None:
        """Note every form that begins before ``end``: the end of a line, or so far back that none is cut off."""
        begin, stop = self._examined, len(self._held) if end > self._lines else end
        for start, until in self._forms.exact.spans(bytes(self._held[begin:stop])):
            if begin + start < end:
                self._spans.append((begin + start, begin + until))
        self._examined = end
        self._spans += self._unwrapper.read(self._held, end, final=final)

    def _release(self, end: int) -> bytes:
        """Pass on the first ``end`` bytes held; it is known which of them are covered."""
        if not end:
            return b""
        pieces: list[bytes] = []
        position = 0
        self._spans = merged(self._spans)
        for start, stop in self._spans:
            if start >= end:
                break
            pieces.append(bytes(self._held[position:start]))
            if start > 0 or not self._masking:
                pieces.append(MASK)
            position = min(stop, end)
        pieces.append(bytes(self._held[position:end]))
        self._masking = any(start < end <= stop for start, stop in self._spans)
        self._spans = [(max(start - end, 0), stop - end) for start, stop in self._spans if stop > end]
        self._at_line_start = self._held[end - 1] == 0x0A
        del self._held[:end]
        self._unwrapper.forget(end)
        self._examined, self._lines = max(self._examined - end, 0), max(self._lines - end, 0)
        return b"".join(pieces)


def redact(text: str, forms: Iterable[bytes] | SecretForms) -> str:
    """Return ``text`` without the secret forms; for messages."""
    known = forms if isinstance(forms, SecretForms) else SecretForms(forms)
    raw = _encoded(text)
    return _replaced(raw, _spans(raw, known))


def redact_echo(text: str, forms: Iterable[bytes] | SecretForms) -> str:
    """Return ``text``, in which somebody may have repeated what we sent, without the secret forms and pieces of them.

    A form of at least eight bytes is recognised however it is broken into lines, and any 16 bytes of one as well, where
    the other side or its protocol cut it.
    """
    known = forms if isinstance(forms, SecretForms) else SecretForms(forms)
    raw = _encoded(text)
    broken = {at for found in _BREAKS.finditer(raw) for at in range(*found.span())}
    places = [at for at in range(len(raw)) if at not in broken]
    joined = bytes(raw[at] for at in places)
    spans = list(_spans(raw, known))
    for start, stop in (*_each(joined, known.unbroken), *_pieces(joined, known.unbroken)):
        spans.append((places[start], places[stop - 1] + 1))
    return _replaced(raw, spans)


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the maximal runs that ``spans`` cover, in order; touching runs are one."""
    runs: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(stop, runs[-1][1]))
        else:
            runs.append((start, stop))
    return runs


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair
        return text.encode("utf-8", "replace")


def _spans(raw: bytes, forms: SecretForms) -> Iterable[tuple[int, int]]:
    yield from forms.exact.spans(raw)
    yield from Unwrapper(forms.unwrapped).read(raw, len(raw), final=True)


def _each(raw: bytes, forms: Iterable[bytes]) -> Iterable[tuple[int, int]]:
    for form in forms:
        start = raw.find(form)
        while start >= 0:
            yield start, start + len(form)
            start = raw.find(form, start + 1)


def _pieces(raw: bytes, forms: Iterable[bytes]) -> Iterable[tuple[int, int]]:
    """Yield where at least ``_PIECE`` bytes of a form stand: they hold a whole step of the text."""
    steps = {raw[at : at + _STEP]: at for at in range(0, len(raw) - _STEP + 1, _STEP)}
    if len(raw) < _PIECE:
        return
    for form in forms:
        for begin in range(len(form) - _STEP + 1) if len(form) > _PIECE else ():
            at = steps.get(form[begin : begin + _STEP])
            if at is None:
                continue
            start, stop = _common(raw, at, form, begin)
            if stop - start >= _PIECE:
                yield start, stop


def _common(raw: bytes, at: int, form: bytes, begin: int) -> tuple[int, int]:
    """Return how far ``raw`` around ``at`` equals ``form`` around ``begin``."""
    start = at
    while start > 0 and begin > at - start and raw[start - 1] == form[begin - (at - start) - 1]:
        start -= 1
    stop = at + _STEP
    while stop < len(raw) and begin + stop - at < len(form) and raw[stop] == form[begin + stop - at]:
        stop += 1
    return start, stop


def _replaced(raw: bytes, spans: Iterable[tuple[int, int]]) -> str:
    pieces: list[bytes] = []
    position = 0
    for start, stop in merged(spans):
        pieces += (raw[position:start], MASK)
        position = stop
    return b"".join([*pieces, raw[position:]]).decode("utf-8", "replace")
