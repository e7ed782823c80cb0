"""Packs as they arrive: counted, checked against their own sum, every object hashed, none interpreted.

What an object declares to be is judged before it is inflated: a megabyte of zeros, or of deltas, can be gigabytes.

The library's own way inflates everything twice more to interpret every object. Here each is interpreted when it is
exported, by code that refuses what is malformed.
"""

import secrets
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from dulwich.errors import ApplyDeltaError
from dulwich.object_format import ObjectFormat
from dulwich.object_store import DiskObjectStore
from dulwich.pack import DELTA_TYPES, PackData, UnpackedObject, unpack_object_at

from magos.git.budget import Budget

_HEADER = struct.Struct(">4sLL")
"""Signature, version and number of objects (gitformat-pack(5))."""
_LONGEST_HEAD = 10
_MORE = 0x80


class IncomingPack:
    """A pack that is written piece by piece; it belongs to ``store`` once it is committed.

    ``budget`` bounds it, ``source`` is who sends it, for messages. ``check`` is called for each object and may raise.
    """

    def __init__(self, store: DiskObjectStore, budget: Budget, source: object, check: Callable[[], None]) -> None:
        self._check = check
        self._format = store.object_format
        self._budget = budget
        self._source = source
        self._head = b""
        self._path = Path(store.pack_dir) / f"pack-{secrets.token_hex(20)}.pack"
        self._file = self._path.open("xb")

    def write(self, data: bytes) -> int:
        """Append ``data``; return its length. Raises ``GitError`` where the pack is or says that it is too large."""
        self._budget.packed(len(data), self._source)
        if len(self._head) < _HEADER.size:
            self._head += data[: _HEADER.size - len(self._head)]
            if len(self._head) == _HEADER.size:
                self._budget.announced(_HEADER.unpack(self._head)[2], self._source)
        return self._file.write(data)

    def commit(self) -> None:
        """Make the objects part of the store; an empty pack is none. Raises the library's errors if it is damaged."""
        size = self._file.tell()
        self._file.close()
        if size == 0:
            self._path.unlink()
            return
        with _JudgedPack(self._path, self._format) as data:
            data.check()
            data.judge = self._judge
            data.create_index_v2(str(self._path.with_suffix(".idx")), progress=lambda *_: self._check())

    def _judge(self, size: int, beside: int) -> None:
        self._check()
        self._budget.declared(size, self._source, beside=beside)

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class _JudgedPack(PackData):
    """Asks ``judge`` about the size of each object, and of what a delta makes and what it is made from, beforehand."""

    def __init__(self, path: Path, object_format: ObjectFormat) -> None:
        super().__init__(str(path), object_format=object_format)
        self.judge: Callable[[int, int], None] = lambda _size, _beside: None

    def iter_unpacked(self, *, include_comp: bool = False) -> Iterator[UnpackedObject]:
        contents, offset = self._buffer(), self._header_size
        for _ in range(len(self)):
            self.judge(_declared(contents[offset : offset + _LONGEST_HEAD]), 0)
            unpacked, offset = unpack_object_at(
                contents, offset, self.object_format.hash_func, compute_crc32=False, include_comp=include_comp
            )
            if unpacked.pack_type_num in DELTA_TYPES:
                base, result = _delta_sizes(b"".join(unpacked.decomp_chunks)[: 2 * _LONGEST_HEAD])
                self.judge(result, base)
            yield unpacked


def _declared(head: bytes) -> int:
    """Return the size in the head of an object: four bits, then seven a byte (gitformat-pack(5))."""
    size, _ = _number(head[1:], 0) if head[:1] > b"\x7f" else (0, 0)
    return (head[0] & 15 if head else 0) + (size << 4)


def _delta_sizes(delta: bytes) -> tuple[int, int]:
    """Return the sizes of what a delta is made from and of what it makes."""
    base, end = _number(delta, 0)
    result, _ = _number(delta, end)
    return base, result


def _number(content: bytes, start: int) -> tuple[int, int]:
    """Return the number that begins at ``start``, seven bits a byte, and where it ends. Raises ``ApplyDeltaError``."""
    number = 0
    for place, byte in enumerate(content[start : start + _LONGEST_HEAD]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < _MORE:
            return number, start + place + 1
    raise ApplyDeltaError("a size that does not end")
