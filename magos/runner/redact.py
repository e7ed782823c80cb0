"""Takes secret values out of a stream of output (spec §7.6, invariant I10).

A secret value of at least four characters is recognised as it is, line by line if it has several lines, part by part
if it is a list or a map, and in the forms in which tools repeat it: base64 (also within a longer value, and broken into
lines), URL-encoded, escaped as in JSON and in expressions. Every maximal run of bytes covered by recognised forms
becomes ``***``. How the stream is cut into chunks makes no difference, lines of any length and bytes that are no UTF-8
pass, and memory stays bounded by the longest form and one line of ``LONGEST_HELD`` bytes.
"""

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import quote, quote_plus

__all__ = ["LONGEST_HELD", "MASK", "SHORTEST_SECRET", "Redactor", "redact", "secret_forms"]

MASK: Final = b"***"
SHORTEST_SECRET: Final = 4
"""Shorter values, in characters, are left alone: masking them would destroy the log and hide nothing."""
LONGEST_HELD: Final = 64 * 1024
"""Bytes of an unfinished line that are held back so that lines appear whole; longer lines are passed on in parts."""
_BASE64_WIDTHS: Final = (64, 76)
"""Where PEM (RFC 7468) and MIME (RFC 2045, also base64(1)) break lines."""
_SHORTEST_INNER: Final = 8
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*[=:])?')
"""A quoted text of an expression, and what makes it a key."""
_GO_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""What Go's JSON, and so ``jsonencode``, escapes besides; the tools' own notation doubles what starts a template."""


def secret_forms(values: Iterable[str]) -> tuple[bytes, ...]:
    """Return every byte sequence that must not appear because it shows one of ``values``; none contains a newline."""
    forms: set[bytes] = set()
    for value in values:
        for text in (value, *_parts(value)):
            forms.update(_forms_of(text))
    return tuple(sorted((form for form in forms if form and b"\n" not in form), key=lambda form: (-len(form), form)))


def _forms_of(value: str) -> Iterator[bytes]:
    if len(value) < SHORTEST_SECRET:
        return
    yield from _encodings(value)
    lines = value.splitlines()
    for line in lines if len(lines) > 1 else ():
        if len(line.strip()) >= SHORTEST_SECRET:
            yield from _encodings(line.strip())


def _parts(value: str) -> Iterator[str]:
    """Yield the texts and numbers inside a list, map or object, written as JSON or as the tools' own expression.

    Where a variable has such a type its parts are shown one by one, never the value as it was written.
    """
    if not value.lstrip().startswith(("{", "[")):
        return
    try:
        pending: list[object] = [json.loads(value)]
    except (ValueError, RecursionError):
        for quoted, key in _QUOTED.findall(value):
            if key:
                continue
            yield quoted
            with suppress(ValueError):
                yield str(json.loads(f'"{quoted}"'))
        return
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, str) or (isinstance(part, int | float) and not isinstance(part, bool)):
            yield str(part)


def _encodings(value: str) -> Iterator[bytes]:
    raw = os.fsencode(value)
    stripped = raw.rstrip(b"\r\n")  # nobody prints the final newline of a file's content
    for plain in {raw, stripped}:
        yield plain
        # The last group of base64 depends on what follows the value; the whole groups before it do not.
        whole = plain[: len(plain) // 3 * 3]
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(plain).rstrip(b"=")
            if len(whole) >= SHORTEST_SECRET:
                yield encode(whole)
            yield from _inner_groups(encode, plain)
            for width in _BASE64_WIDTHS:
                yield from _wrapped(encode(raw).rstrip(b"="), width)
        for escaped in (quote(plain, safe=""), quote(plain), quote_plus(plain)):
            yield escaped.encode()
            yield _lower_escapes(escaped).encode()
    text = os.fsdecode(stripped)
    for form in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield os.fsencode(form)
        yield os.fsencode(form.translate(_GO_ESCAPES))
        yield os.fsencode(form.replace("${", "$${").replace("%{", "%%{"))


def _inner_groups(encode: Callable[[bytes], bytes], plain: bytes) -> Iterator[bytes]:
    """Yield what is certain of ``plain`` inside a longer value that was encoded as a whole, at the other alignments."""
    for offset in (1, 2):
        rest = (offset + len(plain)) % 3
        inner = encode(b"\0" * offset + plain)[4 : -4 if rest else None]
        if len(inner) >= _SHORTEST_INNER:
            yield inner


def _wrapped(encoded: bytes, width: int) -> Iterator[bytes]:
    """Yield the lines in which programs print a long encoded value."""
    if len(encoded) > width:
        for start in range(0, len(encoded), width):
            line = encoded[start : start + width]
            if len(line) >= SHORTEST_SECRET:
                yield line


def _lower_escapes(text: str) -> str:
    head, *rest = text.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


class Redactor:
    """Redacts one stream: :meth:`feed` chunks, :meth:`finish` once, write out what they return."""

    def __init__(self, forms: Iterable[bytes]) -> None:
        self._forms = tuple(forms)
        self._reach = max((len(form) for form in self._forms), default=1) - 1
        self._held = b""
        self._covered = 0  # leading bytes of _held that a form found earlier covers
        self._masking = False  # the last byte passed on was inside a covered run, whose mask is out already

    def feed(self, chunk: bytes) -> bytes:
        """Return the redacted bytes that can be passed on now: whole lines, or parts of an overlong one."""
        self._held += chunk
        end = self._held.rfind(b"\n", len(self._held) - len(chunk)) + 1
        if len(self._held) - end > LONGEST_HELD:
            end = max(end, len(self._held) - self._reach)
        return self._release(end) if end else b""

    def finish(self) -> bytes:
        """Return the redacted rest of the stream and forget everything."""
        rest = self._release(len(self._held))
        self._masking = False
        return rest

    def _release(self, end: int) -> bytes:
        """Pass on the first ``end`` bytes held: no form that starts in them reaches beyond what is held."""
        pieces: list[bytes] = []
        position = 0
        spans = self._spans()
        for start, stop in spans:
            if start >= end:
                break
            pieces.append(self._held[position:start])
            if start > 0 or not self._masking:
                pieces.append(MASK)
            position = min(stop, end)
        pieces.append(self._held[position:end])
        self._masking = any(start < end <= stop for start, stop in spans)
        self._covered = max((stop - end for start, stop in spans if start < end < stop), default=0)
        self._held = self._held[end:]
        return b"".join(pieces)

    def _spans(self) -> list[tuple[int, int]]:
        """Return the maximal covered runs of what is held, in order; touching runs are one."""
        found: list[tuple[int, int]] = [(0, self._covered)] if self._covered else []
        for form in self._forms:
            start = self._held.find(form)
            while start >= 0:
                found.append((start, start + len(form)))
                start = self._held.find(form, start + 1)
        return _merged(found)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def redact(text: str, forms: Iterable[bytes]) -> str:
    """Return ``text`` without the secret forms; for messages."""
    redactor = Redactor(forms)
    return (redactor.feed(os.fsencode(text)) + redactor.finish()).decode("utf-8", "replace")
