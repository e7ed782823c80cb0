"""Packs as they arrive: counted, checked against their own sum, every object hashed, none interpreted.

The library's own way inflates everything twice more to interpret every object. Here each is interpreted when it is
exported, by code that refuses what is malformed.
"""

import secrets
import struct
from pathlib import Path

from dulwich.object_store import DiskObjectStore
from dulwich.pack import PackData

from magos.git.budget import Budget

__all__ = ["IncomingPack"]

_HEADER = struct.Struct(">4sLL")
"""Signature, version and number of objects (gitformat-pack(5))."""


class IncomingPack:
    """A pack that is written piece by piece; it belongs to ``store`` once it is committed.

    ``budget`` bounds it, ``source`` is who sends it, for messages.
    """

    def __init__(self, store: DiskObjectStore, budget: Budget, source: object) -> None:
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
        with PackData(str(self._path), object_format=self._format) as data:
            data.check()
            data.create_index_v2(str(self._path.with_suffix(".idx")))

    def discard(self) -> None:
        """Remove what was written."""
        self._file.close()
        self._path.unlink(missing_ok=True)
