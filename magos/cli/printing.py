"""Tables for people and exact text for programs."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from magos.api.timestamps import parse_time
from magos.cli.options import Output
from magos.terminal import echo, one_line, write_exactly

_GAP = "   "


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with aligned columns; an empty cell is shown as ``-``, and no cell has a line break."""
    cells = [[one_line(cell) or "-" for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def age(since: str | None, now: datetime) -> str:
    """Return how long ago a time of an object is, in its largest unit: ``45s``, ``12m``, ``5h``, ``3d``."""
    try:
        passed = now - parse_time(since) if since else None
    except ValueError:
        passed = None
    return "" if passed is None else span(passed)


def span(passed: timedelta) -> str:
    """Return a duration in its largest unit, rounded down."""
    seconds = max(0, int(passed.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size or (unit == "d" and seconds >= size):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def print_exactly(value: Any, output: Output) -> None:
    """Print a value as JSON or YAML: all of it, as it is."""
    write_exactly(as_yaml(value) if output is Output.YAML else as_json(value))


def as_json(value: Any) -> str:
    """Return a value as JSON with a line feed at its end."""
    return f"{msgspec.json.format(msgspec.json.encode(value), indent=2).decode()}\n"


def as_yaml(value: Any) -> str:
    """Return a value as one YAML document."""
    import yaml

    return str(yaml.safe_dump(msgspec.to_builtins(value), allow_unicode=True, sort_keys=False))


def print_names(resource: str, names: Iterable[str]) -> None:
    """Print names as ``kubectl`` takes them: ``workspaces.magosproject.io/network``."""
    for name in names:
        echo(one_line(f"{resource}/{name}"))
