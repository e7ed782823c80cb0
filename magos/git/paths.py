"""Which names and links of a tree are safe to write. Pure: nothing here touches a file system.

The rules are Git's own for hostile trees (``core.protectHFS``, ``core.protectNTFS`` of git-config(1)), applied on every
system, and stricter for links: a link may lead anywhere inside the tree and nowhere else.
"""

import re
from collections import deque
from collections.abc import Mapping

TreePath = tuple[bytes, ...]
"""A path inside a tree, component by component."""

_MOST_HOPS = 40  # as the kernel counts them (path_resolution(7))
_HFS_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF],
)
_NTFS_SHORT_NAME = re.compile(r"git~[0-9]+")
_SEPARATOR = re.compile(r"[\\/]")


def display(path: TreePath) -> str:
    """Return ``path`` for messages."""
    return b"/".join(path).decode("utf-8", "backslashreplace")


def is_git_alias(name: str) -> bool:
    """Tell whether some file system takes ``name`` for ``.git``."""
    plain = name.translate(_HFS_IGNORED).split(":")[0].rstrip(" .").casefold()
    return plain == ".git" or _NTFS_SHORT_NAME.fullmatch(plain) is not None


def name_problem(name: bytes) -> str | None:
    """Return why ``name`` must not become a file name, or ``None`` if it may."""
    text = name.decode("utf-8", "surrogateescape")
    if not name or b"\0" in name:
        return "is not a file name"
    if b"/" in name:
        return "contains a slash"
    if name in {b".", b".."}:
        return "leaves its directory"
    if any(is_git_alias(part) for part in _SEPARATOR.split(text)):
        return "is a name for .git"
    return None


def link_leaves_tree(link: TreePath, links: Mapping[TreePath, bytes]) -> bool:
    """Tell whether the link at ``link`` leads out of the tree, whose links and their targets are ``links``.

    Other links on the way are followed as the kernel would; a loop counts as leaving. The parents of ``link`` are
    directories.
    """
    here = list(link[:-1])
    pending = deque([link[-1]])
    hops = 0
    while pending:
        step = pending.popleft()
        if step in {b"", b"."}:
            continue
        if step == b"..":
            if not here:
                return True
            here.pop()
            continue
        target = links.get((*here, step))
        if target is None:
            here.append(step)
            continue
        hops += 1
        if hops > _MOST_HOPS or target.startswith(b"/") or not target or b"\0" in target:
            return True
        pending.extendleft(reversed(target.split(b"/")))
    return False
