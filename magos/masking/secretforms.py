"""In which forms a secret value may be shown, and which parts of a structured one are secret (spec §7.6).

1. A whole value of at least four characters is a secret, whatever it looks like, and so is each of its lines.
2. Where a value is a list, a map or an object, its texts and numbers are shown one by one. Each is a secret, except a
   *plain word*: at most 24 characters, only letters in words of at most 12 that are joined by ``.``, ``_``, ``-`` or a
   blank, as a member that no name, its own or one above it, calls secret (``password``, ``token``, ``key`` ...). So the
   ``service_account`` and ``googleapis.com`` of a cloud credential stay readable, and ``{"password": "letmein"}`` does
   not.
3. Tools repeat a value in base64 (also within a longer value, and broken into lines), URL-encoded, and escaped as in
   JSON and in expressions. They also change its white space, which is for :mod:`magos.masking.wrapped` to recognise; a
   value of several lines has one more form for that, all its words with single blanks.
"""

import json
import os
import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

SHORTEST_SECRET: Final = 4
"""Shorter values, in characters, are left alone: masking them would destroy the log and hide nothing."""
_BASE64_WIDTHS: Final = (64, 76)
"""Where PEM (RFC 7468) and MIME (RFC 2045, also base64(1)) break lines."""
_SHORTEST_INNER: Final = 8
_URL_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*[=:])?')
"""A quoted text of an expression, and what makes it a key."""
_NAMED: Final = re.compile(r'(?:([\w-]+)|"([^"\\]*)")\s*[=:]\s*\Z')
"""What stands before the value of a named member of an expression."""
_LONGEST_NAME: Final = 128
_GO_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""What Go's JSON, and so ``jsonencode``, escapes besides; the tools' own notation doubles what starts a template."""
_SAME_IN_URL: Final = re.compile(r"[A-Za-z0-9_.~-]*")
_UNSAFE_IN_URL: Final = re.compile(rb"[^A-Za-z0-9_.~-]")
_ESCAPED: Final = re.compile(rb"%[0-9A-F]{2}")
_SAME_IN_JSON: Final = re.compile(r'[^\x00-\x1f\x7f-\U0010ffff"\\<>&$%]*')
_LONGEST_PLAIN: Final = 24
_PLAIN: Final = re.compile(r"[A-Za-z]{1,12}(?:[._\- ][A-Za-z]{1,12})*")
_CALLED_SECRET: Final = re.compile(
    r"pass|pwd|secret|token|key|cred|auth|priv|cert|sign|salt|seed|pin\b|code|hash", re.IGNORECASE
)
_JWT: Final = re.compile(r"ey[A-Za-z0-9_-]+\.([A-Za-z0-9_-]{8,})\.([A-Za-z0-9_-]{8,})")


def secret_forms(values: Iterable[str]) -> tuple[bytes, ...]:
    """Return every byte sequence that must not appear because it shows one of ``values``; none contains a newline."""
    texts = {text for value in values for whole in (value, *_parts(value)) for text in _texts(whole)}
    forms = {form for text in texts for form in _encodings(text)}
    forms.update(os.fsencode(" ".join(text.split())) for text in texts if "\n" in text.strip())
    return tuple(sorted(sorted(form for form in forms if form and b"\n" not in form), key=len, reverse=True))


def token_values(token: str) -> tuple[str, ...]:
    """Return what of a token is secret: all of it, and of a JSON Web Token (RFC 7519) the claims and the signature.

    Its header alone tells no more than how it is signed, and all tokens of an issuer share it.
    """
    found = _JWT.fullmatch(token.strip())
    return (token, *found.groups()) if found else (token,)


def _texts(value: str) -> Iterator[str]:
    """Yield the value and each of its lines, without the white space around it, if they are long enough."""
    if len(value) < SHORTEST_SECRET:
        return
    yield value
    for line in value.splitlines():
        if len(line.strip()) >= SHORTEST_SECRET:
            yield line.strip()


def _parts(value: str) -> Iterator[str]:
    """Yield the secret texts and numbers inside a list, map or object, written as JSON or as an expression.

    Where a variable has such a type its parts are shown one by one, never the value as it was written.
    """
    if not value.lstrip().startswith(("{", "[")):
        return
    try:
        members = _members(json.loads(value))
    except (ValueError, RecursionError):
        members = _quoted(value)
    for name, text in members:
        if not (name and _is_plain(name, text)):
            yield text


def _is_plain(name: str, text: str) -> bool:
    return len(text) <= _LONGEST_PLAIN and bool(_PLAIN.fullmatch(text)) and not _CALLED_SECRET.search(name)


def _members(document: object) -> Iterator[tuple[str, str]]:
    """Yield texts and numbers with the name of the member they stand under, all names above it included."""
    pending: list[tuple[str, object]] = [("", document)]
    while pending:
        name, part = pending.pop()
        if isinstance(part, dict):
            pending += [(f"{name}.{key}" if name else str(key), item) for key, item in part.items()]
        elif isinstance(part, list):
            # Elements have no names of their own; the members of an object among them have.
            pending += [(name if isinstance(item, dict) else "", item) for item in part]
        elif isinstance(part, str) or (isinstance(part, int | float) and not isinstance(part, bool)):
            yield name, str(part)


def _quoted(expression: str) -> Iterator[tuple[str, str]]:
    """Yield the quoted texts of an expression; one that does not directly follow its name has none."""
    before = 0
    for found in _QUOTED.finditer(expression):
        if found[2]:
            continue
        named = _NAMED.search(expression, max(before, found.start() - _LONGEST_NAME), found.start())
        before = found.end()
        name = (named[1] or named[2]) if named else ""
        yield name, found[1]
        with suppress(ValueError):
            yield name, str(json.loads(f'"{found[1]}"'))


def _encodings(value: str) -> Iterator[bytes]:
    raw = os.fsencode(value)
    stripped = raw.rstrip(b"\r\n")  # programs print a file's content without its final newline
    in_url = _SAME_IN_URL.fullmatch(value)
    for plain in {raw, stripped}:
        yield plain
        for encoded in _in_base64(plain):
            yield encoded
            if b"+" in encoded or b"/" in encoded:
                yield encoded.translate(_URL_ALPHABET)
        if not in_url:
            yield from _in_url(plain)
    if not _SAME_IN_JSON.fullmatch(value):
        yield from _in_json(os.fsdecode(stripped))


def _in_url(plain: bytes) -> Iterator[bytes]:
    """Yield ``plain`` with percent signs: all that is not certainly allowed, without slashes, or as forms encode it."""
    escaped = _UNSAFE_IN_URL.sub(lambda found: b"%%%02X" % ord(found[0]), plain)
    for form in {escaped, escaped.replace(b"%2F", b"/"), escaped.replace(b"%20", b"+")}:
        yield form
        yield _ESCAPED.sub(lambda found: found[0].lower(), form)


def _in_json(text: str) -> Iterator[bytes]:
    for form in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield os.fsencode(form)
        yield os.fsencode(form.translate(_GO_ESCAPES))
        yield os.fsencode(form.replace("${", "$${").replace("%{", "%%{"))


def _in_base64(plain: bytes) -> Iterator[bytes]:
    """Yield what is certain of ``plain`` in base64: alone, before something else, or inside something longer."""
    encoded = b2a_base64(plain, newline=False).rstrip(b"=")
    yield encoded
    for width in _BASE64_WIDTHS:
        yield from _broken(encoded, width)
    # The last group depends on what follows the value; the whole groups before it do not.
    whole = len(plain) // 3 * 3
    if whole >= SHORTEST_SECRET:
        yield encoded[: whole // 3 * 4]
    for offset in (1, 2):
        rest = (offset + len(plain)) % 3
        inner = b2a_base64(b"\0" * offset + plain, newline=False)[4 : -4 if rest else None]
        if len(inner) >= _SHORTEST_INNER:
            yield inner


def _broken(encoded: bytes, width: int) -> Iterator[bytes]:
    """Yield the lines in which programs print a long encoded value."""
    if len(encoded) > width:
        for start in range(0, len(encoded), width):
            line = encoded[start : start + width]
            if len(line) >= SHORTEST_SECRET:
                yield line
