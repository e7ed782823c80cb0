"""Composition root of ``magos-refwatcher-controller``."""

import argparse
import sys
from collections.abc import Mapping
from datetime import timedelta

from magos.apps.controllers import Build, run_program_with_flags
from magos.apps.refwatcher_composition import RefWatcherSettings, refwatcher_controller
from magos.apps.workspace_settings import allowed_schemes, peers
from magos.durations import parse_duration
from magos.reconcilers.refwatcher.schedule import PollLimits

__all__ = ["add_flags", "main", "refwatcher_settings"]

SHORTEST_DEFAULT = timedelta(seconds=1)
MOST_WORKERS = 200
LONGEST_QUEUE = 100_000


def main() -> None:
    """Run RefWatcher; ends the process with its exit code."""
    sys.exit(run_program_with_flags("refwatcher", add_flags, _prepare))


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that only RefWatcher has (spec §13.2)."""
    defaults = RefWatcherSettings()
    parser.add_argument(
        "--default-poll-interval", type=_interval, default=defaults.default_poll_interval, metavar="DURATION"
    )
    parser.add_argument("--worker-count", type=_UpTo(MOST_WORKERS), default=defaults.limits.workers, metavar="N")
    parser.add_argument("--work-queue-size", type=_UpTo(LONGEST_QUEUE), default=defaults.limits.queue, metavar="N")


def refwatcher_settings(environ: Mapping[str, str], flags: argparse.Namespace) -> RefWatcherSettings:
    """Return what environment and parsed flags say; raise ``ConfigurationError`` that names what is wrong."""
    return RefWatcherSettings(
        default_poll_interval=flags.default_poll_interval,
        limits=PollLimits(workers=flags.worker_count, queue=flags.work_queue_size),
        allowed_schemes=allowed_schemes(environ),
        peers=peers(environ),
    )


def _prepare(environ: Mapping[str, str], flags: argparse.Namespace) -> Build:
    settings = refwatcher_settings(environ, flags)
    return lambda assembly: refwatcher_controller(assembly, settings)


def _interval(text: str) -> timedelta:
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if value < SHORTEST_DEFAULT:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1s")
    return value


class _UpTo:
    """Parses whole numbers from 1 to ``limit``."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __call__(self, text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and 0 < int(text) <= self._limit):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {self._limit}")
        return int(text)
