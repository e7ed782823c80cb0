"""What ``git`` asks of ``ssh`` when it fetches, and nothing else.

``git`` calls ``ssh [-o SendEnv=GIT_PROTOCOL] [-p PORT] [USER@]HOST "git-upload-pack 'PATH'"``; the module installer
may add ``-i FILE`` and ``-o StrictHostKeyChecking=no`` for a key that a module source carries with it.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

_PORT: Final = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_TARGET: Final = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][^@\s:/\x00-\x1f]*)@)?(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9_.\-]*[A-Za-z0-9_.])?|\[?[0-9A-Fa-f:.]+\]?)",
    re.ASCII,
)
# As git quotes for a shell: everything in single quotes, a quote and an exclamation mark outside of them.
_COMMAND: Final = re.compile(r"git-upload-pack '((?:[^'!\x00-\x1f\x7f]|'\\''|'\\!')+)'")
_IGNORED_OPTIONS: Final = ("SendEnv=GIT_PROTOCOL", "StrictHostKeyChecking=no")


class UploadPack(msgspec.Struct, frozen=True):
    """A request to fetch from ``host`` (lower-case, no brackets); ``command`` is quoted for the server's shell."""

    host: str
    port: int
    user: str | None
    command: str
    key_file: str | None = None


def read_command(arguments: Sequence[str]) -> UploadPack:
    """Return what the arguments of ``ssh`` ask for; ``ValueError`` for everything that is not a fetch."""
    port, key_file = 22, None
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "--":
            break
        if option in {"-4", "-6"}:
            continue
        value = rest.pop(0) if rest else ""
        if option == "-p" and _PORT.fullmatch(value) and int(value) < 65536:
            port = int(value)
        elif option == "-i" and value.startswith("/"):
            key_file = value
        elif option != "-o" or value not in _IGNORED_OPTIONS:
            raise ValueError(f"the option {option} is not for fetching")
    if len(rest) != 2:
        raise ValueError("a host and a command are needed")
    target, command = _TARGET.fullmatch(rest[0]), rest[1]
    if target is None:
        raise ValueError("the host is not valid")
    if not _COMMAND.fullmatch(command):
        raise ValueError("only fetching (git-upload-pack) is possible here")
    return UploadPack(target["host"].strip("[]").lower(), port, target["user"], command, key_file)
