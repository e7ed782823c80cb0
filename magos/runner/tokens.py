"""The token files that are mounted into a container: output must not show them (spec §7.6, invariant I10).

They are the files below ``/var/run/secrets``, where Kubernetes, cloud identity webhooks and injectors put tokens, and
those that an environment variable ``..._TOKEN_FILE`` names. The kubelet exchanges a projected token long before it
expires, so the files are looked at again before anything is shown; what was read once stays known, because a tool may
hold on to it. Certificates and the name of the namespace, which lie beside the token, are public.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from magos.masking.secretforms import secret_forms, token_values

_PUBLIC_NAMES: Final = frozenset({"namespace"})
_PUBLIC_ENDS: Final = (".crt", ".pem.pub")
_LARGEST: Final = 1024 * 1024
_MOST: Final = 256
_DEEPEST: Final = 8

_Version = tuple[int, int, int]


class TokenFiles:
    """The token files below ``folder``, and ``others`` by their paths."""

    def __init__(self, folder: Path, others: Iterable[Path] = ()) -> None:
        self._folder = folder
        self._others = tuple(others)
        self._seen: dict[str, _Version | None] = {}
        self._values: set[str] = set()

    def fresh_forms(self) -> tuple[bytes, ...]:
        """Return the forms of what the files hold now and did not hold before; costs a few stats if nothing changed."""
        if self._seen and all(_version(path) == version for path, version in self._seen.items()):
            return ()
        seen: dict[str, _Version | None] = {}
        fresh: set[str] = set()
        for path in self._paths():
            # The version first: if the file is exchanged while it is read, it is read again.
            seen[path] = _version(path)
            fresh.update(token_values(_text(path)))
        self._seen = seen
        fresh -= self._values
        self._values |= fresh
        return secret_forms(fresh)

    def _paths(self) -> Iterator[str]:
        """Yield folders, whose change tells of new files, and files; a tree that has no end is left at some point."""
        yield from map(str, self._others)
        pending = [(str(self._folder), 0)]
        for _ in range(_MOST):
            if not pending:
                return
            path, depth = pending.pop()
            yield path
            if not os.path.isdir(path) or depth > _DEEPEST:  # noqa: PTH112 - this is hot
                continue
            # The kubelet's own folders begin with two dots; the names that lead into them are beside them.
            with suppress(OSError):
                names = sorted(name for name in os.listdir(path) if not name.startswith(".."))  # noqa: PTH208
                pending += [(os.path.join(path, name), depth + 1) for name in names if not _is_public(name)]  # noqa: PTH118


def _is_public(name: str) -> bool:
    return name in _PUBLIC_NAMES or name.endswith(_PUBLIC_ENDS)


def _version(path: str) -> _Version | None:
    """Return what changes when another file is put at ``path``; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - this is hot
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _text(path: str) -> str:
    """Return what the regular file at ``path`` holds. What this process cannot read, its tool cannot either."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(_LARGEST).decode("utf-8", "surrogateescape")
