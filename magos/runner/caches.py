"""What lies on the Workspace's volume only to save a download, and which of it has to go where space is short.

A provider in the plugin cache and a version of the tool are one entry each. When an entry was last used is the
modification time of its folder: a mark that needs no space. Code of the configuration can write it, too, so it decides
nothing but what is downloaded again.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from magos.folder import Folder
from magos.runner.config import RunConfig
from magos.runner.paths import TOOLS, Paths

_PROVIDER_DEPTH: Final = 4
"""``<host>/<namespace>/<type>/<version>``, in the plugin cache and in the tool's data folder."""

_TOOL_DEPTH: Final = 2
"""``<distribution>/<version>``."""

_PROVIDERS: Final = "providers"
_CLOCKS_DIFFER: Final = 3600.0


class Cached(msgspec.Struct, frozen=True):
    """An entry: its path on the volume, the bytes it takes, and when it was last used (seconds since the epoch)."""

    name: str
    size: int
    used: float


def victims(entries: Iterable[Cached], needed: frozenset[str], wanted: float) -> tuple[Cached, ...]:
    """Return what to remove to get ``wanted`` bytes: the longest unused first, no more than that, nothing needed.

    All that is not needed, if that does not suffice.
    """
    chosen: list[Cached] = []
    freed = 0
    for entry in sorted(entries, key=lambda each: (each.used, each.name)):
        if freed >= wanted:
            break
        if entry.name not in needed:
            chosen.append(entry)
            freed += entry.size
    return tuple(chosen)


def last_used(entries: Sequence[Cached]) -> frozenset[str]:
    """Return what the run used that marked last: those of its providers and its tool that are still there."""
    newest: dict[str, float] = {}
    for entry in entries:
        newest[_root(entry)] = max(entry.used, newest.get(_root(entry), 0.0))
    return frozenset(entry.name for entry in entries if entry.used == newest[_root(entry)])


def cached(volume: Folder, paths: Paths, run: RunConfig, now: float) -> tuple[Cached, ...]:
    """Return the entries on ``volume``; a time that is still to come is none at which anything was used."""
    roots = {TOOLS: _TOOL_DEPTH}
    providers = _plugin_cache(paths, run)
    if providers is not None:
        roots[providers] = _PROVIDER_DEPTH
    return tuple(
        Cached(name, volume.usage(name), used if used <= now + _CLOCKS_DIFFER else 0.0)
        for root, depth in roots.items()
        for name in _entries(volume, root, depth)
        for used in _used_at(volume, name)
    )


def evict(volume: Folder, chosen: Iterable[Cached]) -> int:
    """Remove ``chosen`` from ``volume``; return how many are gone."""
    gone = 0
    for entry in chosen:
        with suppress(OSError):  # what cannot be removed makes no room; whether there is enough is found out anyway
            gone += volume.remove(entry.name)
    return gone


def own_tool(run: RunConfig) -> str:
    """Return where on the volume the tool of ``run`` is cached."""
    return f"{TOOLS}/{run.distribution}/{run.version}"


def linked_providers(paths: Paths, run: RunConfig) -> frozenset[str]:
    """Return what of the plugin cache the pod's data folder refers to: after ``init``, the providers of this run."""
    providers = _plugin_cache(paths, run)
    if providers is None:
        return frozenset()
    inside = f"{paths.data.name}/{_PROVIDERS}"
    with Folder.at(paths.work) as work:
        names = tuple(_entries(work, inside, _PROVIDER_DEPTH))
    return frozenset(f"{providers}{name.removeprefix(inside)}" for name in names)


def mark_used(volume: Folder, names: Iterable[str], now: float) -> None:
    """Note that ``names`` are used now, all at the same moment; what is not on ``volume`` is not noted."""
    for name in names:
        with suppress(OSError):  # not cached, or not ours: it counts as unused for longer
            volume.mark_used(name, now)


def _plugin_cache(paths: Paths, run: RunConfig) -> str | None:
    """Return where on the volume the plugin cache lies; None if it lies elsewhere, or there is none."""
    place = paths.inside(run.environment.get("TF_PLUGIN_CACHE_DIR", ""))
    if place == paths.workspace_data or not place.is_relative_to(paths.workspace_data):
        return None
    return str(place.relative_to(paths.workspace_data))


def _entries(holder: Folder, name: str, depth: int) -> Iterator[str]:
    """Yield the paths ``depth`` levels below ``name``, and what is no folder where there should be one."""
    try:
        with holder.folder(name) as folder:
            names = folder.names()
    except FileNotFoundError:
        return
    except OSError:  # a file or a link in the place of a folder
        yield name
        return
    for inner in names:
        if depth > 1:
            yield from _entries(holder, f"{name}/{inner}", depth - 1)
        else:
            yield f"{name}/{inner}"


def _used_at(volume: Folder, name: str) -> Iterator[float]:
    with suppress(OSError):  # gone meanwhile
        yield volume.used_at(name)


def _root(entry: Cached) -> str:
    return entry.name.partition("/")[0]
