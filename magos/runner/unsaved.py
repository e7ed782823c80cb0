"""State that an apply could not hand to its backend.

The tools then leave it as ``errored.tfstate`` in the working directory, which ends with the pod. It is moved to the
Workspace's volume, where the next plan hands it to the backend before anything else: a plan beside it would create
everything again. Beside it stands which state it is of, so that it is never handed to another one.
"""

import io
import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Final

import msgspec

from magos.folder import Folder, NotFolder
from magos.runner.checkout import ERRORED_STATE, Checkout
from magos.runner.config import RunConfig
from magos.runner.context import Context
from magos.runner.diagnostics import shorten
from magos.runner.outcome import StageFailed, phase_failed
from magos.runner.paths import UNSAVED
from magos.runner.sealed import Sealed, sealed
from magos.runner.state import StatePlace, state_place
from magos.runner.tool import Tool
from magos.runner.volumepod import volume_commands

_STATE: Final = ".tfstate"
_PLACE: Final = ".place.json"
_LARGEST_PLACE: Final = 64 * 1024


class _State(msgspec.Struct):
    lineage: str = ""


def keep_unsaved_state(volume: Folder, checkout: Checkout, run: RunConfig, place: StatePlace) -> str | None:
    """Move what the apply left to the volume, durably and with mode 0600; return its name there, if any.

    ``OSError`` if that is impossible, for instance because the volume is full.
    """
    name = f"{run.run_id}{_STATE}"
    with ExitStack() as held:
        try:
            source = held.enter_context(checkout.folder.opened(ERRORED_STATE))
        except FileNotFoundError:
            return None
        unsaved = held.enter_context(_made(volume))
        unsaved.remove(name)
        try:
            with unsaved.created(name) as target:
                shutil.copyfileobj(source, target, 1 << 20)
        except BaseException:
            unsaved.remove(name)  # half a state would be handed over, in vain, before every plan
            raise
        with suppress(OSError):  # without it the lineage alone decides where the state belongs
            unsaved.replace(f"{run.run_id}{_PLACE}", io.BytesIO(msgspec.json.encode(place)))
    checkout.folder.remove(ERRORED_STATE)
    return f"{UNSAVED}/{name}"


def _made(volume: Folder) -> Folder:
    """Hold the folder of kept states; whatever else has its name must not cost a state."""
    try:
        return volume.made(UNSAVED)
    except NotFolder:
        volume.remove(UNSAVED)
        return volume.made(UNSAVED)


def hand_over(volume: Folder, tool: Tool, variables: Mapping[str, str], context: Context, run: RunConfig) -> None:
    """Hand every kept state to the backend, oldest run first; ``StageFailed`` if the backend does not take one."""
    try:
        with volume.folder(UNSAVED) as unsaved:
            kept = [name for name in unsaved.names() if name.endswith(_STATE)]
    except FileNotFoundError:
        return
    for name in kept:
        context.journal.say(f"handing the state of an earlier run over to the backend: {_shown(name)}")
        try:
            with volume.opened(f"{UNSAVED}/{name}") as source, sealed(source, name) as state:
                _require_same_state(volume, name, state, _Backend(tool, variables, context, run))
                tool.push_state(variables, state)
        except (StageFailed, OSError) as error:
            files = (_shown(name), _shown(f"{name.removesuffix(_STATE)}{_PLACE}"))
            context.journal.say(volume_commands(run, files))
            raise StageFailed(
                phase_failed(run.phase),
                shorten(
                    f"{_shown(name)}, the state that run {name.removesuffix(_STATE)} left, was not handed over to the"
                    " backend; nothing was planned, because that would create its resources again; the log of this"
                    f" plan says how to inspect, push or discard it; {error}"
                ),
            ) from error
        volume.remove(f"{UNSAVED}/{name}")
        volume.remove(f"{UNSAVED}/{name.removesuffix(_STATE)}{_PLACE}")


class _Backend(msgspec.Struct, frozen=True):
    """The backend as it is configured now."""

    tool: Tool
    variables: Mapping[str, str]
    context: Context
    run: RunConfig

    @property
    def place(self) -> StatePlace:
        return state_place(self.context.paths, self.run.environment)

    def lineage(self) -> str:
        """Return the lineage of the state it has; nothing if it has none."""
        answer = os.memfd_create("state", os.MFD_CLOEXEC)
        with os.fdopen(answer, "r+b") as stream:
            self.tool.pull_state(self.variables, answer)
            stream.seek(0)
            return _lineage(stream.read())


def _require_same_state(volume: Folder, name: str, state: Sealed, backend: _Backend) -> None:
    """Raise ``StageFailed`` if the kept state belongs to another state than the one configured now.

    A backend without any state takes whatever it is given, so that it refuses another lineage is not enough.
    """
    if _kept_place(volume, name) == backend.place:
        return
    with state.opened() as stream:
        own = _lineage(stream.read())
    if not own or own != backend.lineage():
        raise StageFailed(
            phase_failed(backend.run.phase),
            "it was kept for another backend or CLI workspace than the one configured now, which does not hold that"
            " state; set back the backend's settings, or push the state by hand",
        )


def _kept_place(volume: Folder, name: str) -> StatePlace | None:
    try:
        content = volume.read(f"{UNSAVED}/{name.removesuffix(_STATE)}{_PLACE}", _LARGEST_PLACE)
        return msgspec.json.decode(content, type=StatePlace)
    except (FileNotFoundError, ValueError):
        return None


def _lineage(content: bytes) -> str:
    try:
        return msgspec.json.decode(content, type=_State).lineage
    except ValueError:
        return ""


def _shown(name: str) -> str:
    """Return where the state lies as a container sees it."""
    return f"/workspace-data/{UNSAVED}/{name}"
