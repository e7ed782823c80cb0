"""The termination message: the result as JSON of at most 2400 bytes (spec §7.5).

The kubelet shares 12 KiB among all containers of a pod and cuts the rest, so the size is kept here, losing what matters
least first. Identity, reason, revision, digest and counts always stay.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from magos.api.result import Result, Violation

LARGEST_MESSAGE: Final = 2400
_SHORT_TEXT: Final = 160
_encoder = msgspec.json.Encoder()


def encode_result(result: Result) -> bytes:
    """Return ``result`` as UTF-8 JSON of at most ``LARGEST_MESSAGE`` bytes, marked if anything had to be left out."""
    clean = _clean(result)
    encoded = _encoder.encode(clean)
    if len(encoded) <= LARGEST_MESSAGE:
        return encoded
    for smaller in _ever_smaller(msgspec.structs.replace(clean, truncated=True)):
        encoded = _encoder.encode(smaller)
        if len(encoded) <= LARGEST_MESSAGE:
            break
    return encoded


def write_termination_message(path: Path, result: Result) -> None:
    """Write the message where the kubelet reads it; the file may be a mount of its own, so it is written in place."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(encode_result(result))


def _ever_smaller(result: Result) -> Iterator[Result]:
    """Yield forms of ``result``, each losing more: long texts, violations and warnings from the end, the message."""
    violations = tuple(
        Violation(_cut(violation.policy, _SHORT_TEXT), _cut(violation.message, _SHORT_TEXT), violation.action)
        for violation in result.violations[:_SHORT_TEXT]
    )
    warnings = tuple(_cut(warning, _SHORT_TEXT) for warning in result.warnings[:_SHORT_TEXT])
    result = msgspec.structs.replace(
        result, violations=violations, warnings=warnings, message=_cut(result.message, 512)
    )
    yield result
    while result.violations or result.warnings:
        if len(result.warnings) > len(result.violations):
            result = msgspec.structs.replace(result, warnings=result.warnings[:-1])
        else:
            result = msgspec.structs.replace(result, violations=result.violations[:-1])
        yield result
    while result.message:
        result = msgspec.structs.replace(result, message=_cut(result.message, len(result.message) * 3 // 4))
        yield result


def _clean(result: Result) -> Result:
    """Replace what UTF-8 cannot carry: file names and diagnostics may hold bytes of any kind."""
    return msgspec.structs.replace(
        result,
        message=_utf8(result.message),
        warnings=tuple(_utf8(warning) for warning in result.warnings),
        violations=tuple(
            Violation(_utf8(violation.policy), _utf8(violation.message), violation.action)
            for violation in result.violations
        ),
    )


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return text[: limit - 1].rstrip() + "…" if limit > 1 else ""
