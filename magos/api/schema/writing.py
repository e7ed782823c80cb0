"""Writes generated files, or tells which of them are not up to date."""

import sys
from collections.abc import Mapping
from pathlib import Path


def bring_up_to_date(files: Mapping[str, str], root: Path, *, origin: str, check: bool) -> bool:
    """Write what differs below ``root``; with ``check`` change nothing and return False if anything does.

    ``origin`` says in a complaint where the text comes from.
    """
    stale = [name for name, text in files.items() if _read(root / name) != text]
    for name in stale:
        if check:
            print(f"{name} is not what {origin} says: run scripts/gen and commit the result", file=sys.stderr)
            continue
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(files[name], encoding="utf-8")
        print(f"wrote {name}")
    return not (check and stale)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
