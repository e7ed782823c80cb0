"""Composition root of ``magos-refwatcher-controller``.

What it watches, its flags, and how reconciler and poller work together (spec §6.7). A pass does no I/O: it keeps the
registry in step with the Workspace and carries out what the last poll meant for it. The poller runs beside the
controller, so only on the leader; it wakes passes and writes nothing.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from magos.adapters.gitlister import GitLister, host_of
from magos.adapters.gitsettings import allowed_schemes, peers
from magos.adapters.metrics.polls import PollMetrics
from magos.adapters.poller import Lister, Poller
from magos.adapters.repositoryaccess import AccessReader
from magos.api.kube import SECRET_METADATA, SecretMetadata
from magos.api.repositorysecret import SELECTOR
from magos.api.runnerpod import DEFAULT_SCHEMES
from magos.api.workspace import WORKSPACES, Workspace
from magos.apps.controllers import Build, run_program_with_flags
from magos.durations import parse_duration
from magos.outbound.peers import Peers
from magos.reconcilers.refwatcher.schedule import PollLimits
from magos.reconcilers.refwatcher.watch import DEFAULT_POLL_INTERVAL, RepositoryAccess, WatchSettings, observe
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, WakeUp, own_key
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Decision, Outcome, Reconciler, Request, View
from magos.runtime.manager.assembly import Assembly

SHORTEST_DEFAULT = timedelta(seconds=1)
MOST_WORKERS = 200
LONGEST_QUEUE = 100_000


class RefWatcherSettings(Struct, frozen=True, kw_only=True):
    """What the flags and the environment of RefWatcher say (spec §13.2)."""

    default_poll_interval: timedelta = DEFAULT_POLL_INTERVAL
    limits: PollLimits = PollLimits()
    allowed_schemes: tuple[str, ...] = DEFAULT_SCHEMES
    peers: Peers = Peers()


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


def refwatcher_controller(
    assembly: Assembly, settings: RefWatcherSettings, lister: Lister | None = None
) -> Sequence[ControllerSpec]:
    """Declare the informers and return the controller; ``lister`` stands for the Git servers of a simulation."""
    workspaces = assembly.informer(WORKSPACES)
    secrets = assembly.informer(SECRET_METADATA, selector=SELECTOR)
    access, wake_up = AccessReader(), WakeUp()
    if lister is None:
        lister = GitLister(
            assembly.client,
            access,
            assembly.clock,
            allowed_schemes=settings.allowed_schemes,
            peers=settings.peers,
            threads=settings.limits.workers,
        )
    poller = Poller(settings.limits, lister, workspaces.cache.get, wake_up, clock=assembly.clock, rng=assembly.rng)
    if assembly.metrics is not None:
        per_object = assembly.settings.metrics_per_object
        poller.observer = PollMetrics(assembly.metrics, poller.schedule, per_object=per_object)
    assembly.beside("poller", poller.run)
    watching = WatchSettings(default_interval=settings.default_poll_interval, host_of=host_of)
    return (
        ControllerSpec(
            name="refwatcher",
            kind=WORKSPACES,
            reconcile=_reconciler(poller, watching),
            sources=(EventSource(workspaces, own_key), EventSource(secrets, _of_namespace(workspaces))),
            workers=assembly.settings.workers,
            queries={RepositoryAccess: access},
            wake_ups=(wake_up,),
        ),
    )


def _reconciler(poller: Poller, settings: WatchSettings) -> Reconciler:
    """Return the reconciler: two pure functions, and the registry in memory between them."""

    def decide(request: Request, view: View, now: datetime) -> Decision:
        key = Key(request.namespace, request.name)
        subject = observe(request, view, settings)
        if subject.ask is not None:
            return Decision(queries=(subject.ask,), outcome=Outcome.WAITING)
        if subject.watch is None:
            poller.drop(key)
        else:
            poller.track(key, subject.watch)
        if subject.workspace is None:
            return Decision(outcome=Outcome.GONE)
        return poller.judge(key, subject.workspace, now)

    return decide


def _of_namespace(workspaces: Informer[Workspace]) -> Callable[[Change[SecretMetadata]], Iterable[Key]]:
    """Metadata does not tell the URL: every Workspace of the namespace looks which credentials it has now."""

    def mapper(change: Change[SecretMetadata]) -> Iterable[Key]:
        secret = change.new if change.new is not None else change.old
        if secret is None or change.initial:
            return ()
        return tuple(
            Key(each.metadata.namespace, each.metadata.name)
            for each in workspaces.cache.list(secret.metadata.namespace)
        )

    return mapper


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
