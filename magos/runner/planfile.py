"""The binary plan file: how it is read, and which input variables it carries (spec §7.1).

A plan file is a ZIP archive whose entry ``tfplan`` is a Protocol Buffers message; its field 2 is a map from the names
of the input variables to the values that were planned with. Ephemeral variables are not in it, so what is not carried
has to be given to ``apply`` again, and what is carried must not: the tools refuse or print another value.
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

import msgspec

from magos.api.runnerpod import run_folder
from magos.folder import Folder
from magos.runner.config import RunConfig
from magos.runner.sealed import Sealed, sealed

_ENTRY: Final = "tfplan"
_VARIABLES: Final = 2
_KEY: Final = 1
_VALUE: Final = 2
_MSGPACK: Final = 1
_NOTHING: Final = memoryview(b"")
_LARGEST_ENTRY: Final = 256 * 1024 * 1024
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@contextmanager
def sealed_plan(volume: Folder, run: RunConfig) -> Iterator[Sealed]:
    """Copy the plan file of ``run`` out of everybody's reach, as it is now.

    ``FileNotFoundError`` if there is none, another ``OSError`` if what is there cannot be used or a link is on the way.
    """
    with (
        volume.opened(f"{run_folder(run.run_id)}/{run.plan_name}") as stream,
        sealed(stream, run.plan_name) as plan,
    ):
        yield plan


def is_plain_plan(plan: IO[bytes]) -> bool:
    """True if the file ``plan`` holds the plan itself.

    Else it is encrypted, or names a plan that lies on a server. The tools take either for a file that is JSON text,
    which an archive cannot be.
    """
    try:
        with zipfile.ZipFile(plan) as archive:
            return _ENTRY in archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def carried_variables(plan: IO[bytes]) -> dict[str, str | None] | None:
    """Return the input variables ``plan`` carries with their values; None if it is not readable (encrypted).

    A value is written as in an environment variable: a string as it is, anything else as JSON, which the tools read as
    an expression. It is None if the plan holds it in a form not known here.
    """
    try:
        with zipfile.ZipFile(plan) as archive:
            if archive.getinfo(_ENTRY).file_size > _LARGEST_ENTRY:
                return None
            message = memoryview(archive.read(_ENTRY))
        return dict(_variable(entry) for number, entry in _fields(message) if number == _VARIABLES)
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, RuntimeError):
        return None


def _variable(entry: memoryview) -> tuple[str, str | None]:
    parts = dict(_fields(entry))
    value = dict(_fields(parts.get(_VALUE, _NOTHING))).get(_MSGPACK, _NOTHING)
    return bytes(parts.get(_KEY, _NOTHING)).decode(), _as_text(value)


def _as_text(value: memoryview) -> str | None:
    """Return the second of the two elements, type and value, that a dynamic value is packed as."""
    try:
        _, content = msgspec.msgpack.decode(value, type=tuple[bytes, object])
        return content if isinstance(content, str) else msgspec.json.encode(content).decode()
    except (msgspec.MsgspecError, ValueError, TypeError):
        return None


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of the length-delimited fields of ``message``; ``ValueError`` if it is malformed."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _BYTES:
            length, position = _varint(message, position)
            content = message[position : position + length]
            yield tag >> 3, content
        elif kind == _VARINT:
            _, position = _varint(message, position)
            continue
        elif kind in {_FIXED64, _FIXED32}:
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} is not one of Protocol Buffers 3")
        position += length
        if position > len(message):
            raise ValueError("the message ends within a field")


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise ValueError("the message ends within a number")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number has more than ten bytes")
