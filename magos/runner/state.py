"""Tells where the Terraform state really is, and refuses to work where it would be lost (spec §7.1, field case F15).

What decides is what the tool goes by after ``init``: the backend's settings in its data directory, the CLI workspace,
and the options that users may add to every command. The text of the configuration decides nothing. State is kept if it
is with a backend elsewhere or on the Workspace's volume, outside of the folders that we ourselves fill and empty.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Final

import msgspec

from magos.api.reasons import Reason
from magos.api.runnerpod import RUNS
from magos.folder import Folder
from magos.ids import Digest, digest_of
from magos.runner.config import RunConfig
from magos.runner.outcome import StageFailed
from magos.runner.paths import TOOLS, UNSAVED, Paths

_LARGEST: Final = 1024 * 1024
_DEFAULT: Final = "default"
_DEFAULT_FILE: Final = "terraform.tfstate"
_WORKSPACES: Final = "terraform.tfstate.d"
_CHOSEN_WORKSPACE: Final = "environment"
_IN_MEMORY: Final = "inmem"
_OPTION: Final = re.compile(r"--?(?P<name>state(?:-out)?)(?:=(?P<value>.*))?", re.DOTALL)
_MOST_LINKS: Final = 40
_PROC: Final = Path("/proc")
_REMEDY: Final = (
    "keep the state with a backend that outlives the pod, or with the local one below /workspace-data (in a folder of"
    " your own); to try things out, set MAGOS_ALLOW_EPHEMERAL_STATE=true on the workspace controller"
)


class _LocalSettings(msgspec.Struct):
    path: str | None = None
    workspace_dir: str | None = None


class _Backend(msgspec.Struct):
    type: str
    config: msgspec.Raw = msgspec.Raw(b"{}")


class _BackendFile(msgspec.Struct):
    backend: _Backend | None = None


class StatePlace(msgspec.Struct, frozen=True):
    """Which state the tool works on: the backend's type, the CLI workspace and a digest of the backend's settings."""

    backend: str
    workspace: str
    settings: Digest


def state_place(paths: Paths, environment: Mapping[str, str]) -> StatePlace:
    """Return which state the tool works on after ``init``; ``StageFailed`` if that cannot be read."""
    backend = _backend(paths)
    if backend is None:
        return StatePlace("local", _workspace(paths, environment), digest_of(b""))
    settings = msgspec.json.encode(msgspec.json.decode(backend.config), order="sorted")
    return StatePlace(backend.type, _workspace(paths, environment), digest_of(settings))


def require_persistent_state(paths: Paths, run: RunConfig, module: Path) -> None:
    """Raise ``StageFailed`` (InvalidConfiguration) if the state would be lost with the pod; ``module`` is the cwd."""
    backend = _backend(paths)
    if backend is None:
        raise _lost("the configuration has no backend block, so its state would be lost with this pod")
    if backend.type == _IN_MEMORY:
        raise _lost(f"the backend {_IN_MEMORY} keeps the state in the tool's memory, where it is lost at once")
    if backend.type != "local":
        return
    settings = msgspec.json.decode(backend.config, type=_LocalSettings)
    for named, origin in _local_files(settings, _workspace(paths, run.environment), run.environment):
        problem = _problem(module / named, paths, run)
        if problem:
            raise _lost(f"{origin} keeps the state at {named!r}, {problem}")


def _local_files(settings: _LocalSettings, workspace: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every file the local backend may keep the state in, and what says so."""
    if workspace == _DEFAULT:
        yield settings.path or _DEFAULT_FILE, "the local backend"
    else:
        folder = settings.workspace_dir or _WORKSPACES
        yield os.path.join(folder, workspace, _DEFAULT_FILE), f"the local backend in CLI workspace {workspace!r}"  # noqa: PTH118 - as the tool joins it
    for name, value in environment.items():
        if name == "TF_CLI_ARGS" or name.startswith("TF_CLI_ARGS_"):
            yield from ((path, f"{option} in {name}") for option, path in _options(name, value))


def _options(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield the options in ``value`` that say where a state lies, with the path."""
    try:
        words = iter(shlex.split(value))
    except ValueError as error:
        raise StageFailed(
            Reason.INVALID_CONFIGURATION, f"environment variable {name} cannot be read ({error}); correct its quotes"
        ) from None
    for word in words:
        found = _OPTION.fullmatch(word)
        if found:
            yield f"-{found['name']}", next(words, "") if found["value"] is None else found["value"]


def _problem(path: Path, paths: Paths, run: RunConfig) -> str:
    """Return why a state at ``path`` would be lost; nothing if it would not."""
    real = _real(path)
    volume = _real(paths.workspace_data.absolute())
    if real is None or volume is None:
        return "which is not one place: its links lead in circles or through /proc"
    shown = "" if real == path else f" (really {real})"
    if not real.is_relative_to(volume) or real == volume:
        return f"which is lost with this pod{shown}"
    cache = run.environment.get("TF_PLUGIN_CACHE_DIR")
    own = [volume / name for name in (RUNS, TOOLS, UNSAVED)]
    if cache:
        own.append(_real(paths.inside(cache).absolute()) or volume)
    taken = next((folder for folder in own if real.is_relative_to(folder)), None)
    return f"in a folder of the runner's own, which empties it{shown}" if taken else ""


def _real(path: Path) -> Path | None:
    """Return where the absolute ``path`` leads, links resolved; what does not exist leads where its name says.

    None if that depends on which process asks (``/proc/self``) or never ends.
    """
    found, links = Path("/"), 0
    pending = [*reversed(path.parts[1:])]
    while pending:
        part = pending.pop()
        place = found.parent if part == ".." else found / part
        if place == _PROC:
            return None
        try:
            target = PurePath(os.readlink(place))  # noqa: PTH115 - absent and not a link are one here
        except OSError:
            found = place
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        if target.is_absolute():
            found = Path("/")
        pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return found


def _workspace(paths: Paths, environment: Mapping[str, str]) -> str:
    """Return the CLI workspace, as the tools choose it."""
    chosen = environment.get("TF_WORKSPACE")
    return chosen or _read(paths, _CHOSEN_WORKSPACE).decode("utf-8", "replace").strip() or _DEFAULT


def _backend(paths: Paths) -> _Backend | None:
    try:
        content = _read(paths, _DEFAULT_FILE)
        return msgspec.json.decode(content, type=_BackendFile).backend if content else None
    except ValueError as error:
        raise _unreadable(error) from error


def _read(paths: Paths, name: str) -> bytes:
    """Return a file of the tool's data directory; nothing if it is not there."""
    try:
        with Folder.at(paths.work) as work:
            return work.read(f"{paths.data.name}/{name}", _LARGEST)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> StageFailed:
    return StageFailed(Reason.INVALID_CONFIGURATION, f"the backend settings that init wrote are unreadable: {error}")


def _lost(cause: str) -> StageFailed:
    return StageFailed(Reason.INVALID_CONFIGURATION, f"{cause}; {_REMEDY}")
