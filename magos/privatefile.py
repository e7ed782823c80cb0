"""Writes a file that only its owner may read, in a folder whose path our own code decides."""

import io
from pathlib import Path

from magos.folder import Folder


def write_private(path: Path, content: bytes) -> None:
    """Put a file with ``content`` and mode 0600 at ``path`` in one step, in place of whatever lies there.

    Missing folders are made; no link in the last component is followed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with Folder.at(path.parent) as folder:
        folder.replace(path.name, io.BytesIO(content))
