"""The paths of Git's smart fetch protocol over HTTP (gitprotocol-http(5)); every other path is refused."""

import re
from enum import Enum
from typing import Final
from urllib.parse import unquote

import msgspec

_LONGEST: Final = 4096
_SUFFIXES: Final = ("/info/refs?service=git-upload-pack", "/git-upload-pack")
# RFC 3986 path characters and percent-encoded ones.
_PATH: Final = re.compile(r"(?:/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*)+", re.ASCII)


class Step(Enum):
    """What is asked for: the references, or a pack."""

    REFS = _SUFFIXES[0]
    PACK = _SUFFIXES[1]


class FetchPath(msgspec.Struct, frozen=True):
    """The path of a repository, as it was encoded, and the step."""

    repository: str
    step: Step

    @classmethod
    def parse(cls, target: str) -> "FetchPath":
        """Return what ``target``, a path with its query, asks for; ``ValueError`` if it is no step of a fetch."""
        if len(target) > _LONGEST:
            raise ValueError("the path is too long")
        for step in Step:
            repository = target.removesuffix(step.value)
            if repository != target and _is_plain(repository):
                return cls(repository, step)
        raise ValueError("only fetching with the smart HTTP protocol is possible here")

    @property
    def target(self) -> str:
        """The path with its query."""
        return self.repository + self.step.value


def _is_plain(path: str) -> bool:
    """Tell whether every server reads the path alike: no query, no dot segments, no separators in disguise."""
    if not _PATH.fullmatch(path):
        return False
    decoded = unquote(path, errors="replace")
    hidden = any(ord(character) < 32 or character in "\\?#%\x7f" for character in decoded)
    return not hidden and "%2f" not in path.lower() and not {".", ".."} & set(decoded.split("/"))
