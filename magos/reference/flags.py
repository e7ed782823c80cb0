"""The flags of the controller programs, as their parsers know them."""

import argparse
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from magos.apps import refwatcher
from magos.durations import format_duration
from magos.errors import InvariantViolation
from magos.runtime.manager.settings import add_common_flags

_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "--metrics-bind-address": "Where metrics are served; `0` is off.",
        "--metrics-secure": "Serve metrics over HTTPS, to those whom the cluster lets read them.",
        "--metrics-cert-path": "Folder of the certificate for metrics.",
        "--metrics-cert-name": "File name of the certificate.",
        "--metrics-cert-key": "File name of the certificate's key.",
        "--metrics-per-object": "Expose series of single objects.",
        "--health-probe-bind-address": "Where probes are served; `0` is off.",
        "--leader-elect": "Work only as holder of the Lease; needs `POD_NAMESPACE`.",
        "--leader-elect-id": "Name of the Lease; by default `<name>-controller`.",
        "--max-concurrent-reconciles": "Workers, 1 to 1000.",
        "--log-level": "From which level on log lines are written.",
        "--default-poll-interval": "How often a source is polled; at least 1s.",
        "--worker-count": f"Listings at a time, 1 to {refwatcher.MOST_WORKERS}.",
        "--work-queue-size": f"Sources that may be queued for a worker, 1 to {refwatcher.LONGEST_QUEUE}.",
    }
)
"""What a flag means where its own help does not say so."""


class Flag(Struct, frozen=True, kw_only=True):
    """One flag; ``default`` as it is written on a command line, empty if there is none."""

    name: str
    default: str
    meaning: str


class Listing(argparse.ArgumentParser):
    """A parser that remembers what was added to it, in ``added``."""

    def __init__(self) -> None:
        super().__init__(add_help=False)
        self.added: list[argparse.Action] = []

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        action = super().add_argument(*names, **settings)
        self.added.append(action)
        return action


def common_flags() -> tuple[Flag, ...]:
    """Return the flags that every controller has."""
    parser = Listing()
    add_common_flags(parser)
    return flags_of(parser)


def refwatcher_flags() -> tuple[Flag, ...]:
    """Return the flags that RefWatcher alone has."""
    parser = Listing()
    refwatcher.add_flags(parser)
    return flags_of(parser)


def flags_of(parser: Listing) -> tuple[Flag, ...]:
    """Return what was added to a parser."""
    return tuple(_flag(action) for action in parser.added)


def _flag(action: argparse.Action) -> Flag:
    name = action.option_strings[0]
    meaning = _MEANINGS.get(name) or action.help
    if not meaning:
        raise InvariantViolation(f"the flag {name} has no help")
    choices = f" One of {', '.join(map(str, action.choices))}." if action.choices else ""
    return Flag(name=name, default=_default(name, action.default), meaning=f"{meaning}{choices}")


def _default(name: str, value: object) -> str:
    match value:
        case None:
            return "0" if name.endswith("-bind-address") else ""
        case bool():
            return str(value).lower()
        case timedelta():
            return format_duration(value)
        case _:
            return str(value)
