"""A file system that is full: how a failure is recognised as one, and what is said about it (``VolumeFull``).

The runner's own writes end with an error number. A tool prints a text, which a program elsewhere may have written just
as well (a provisioner on a machine of the user's): it counts if it names a place of the pod's, or one of them is full.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from magos.api import runnerpod
from magos.api.names import volume_claim_name
from magos.api.reasons import Reason
from magos.api.runnerpod import Stage
from magos.folder import Folder, is_full
from magos.masking.message import Message, compose, shorten
from magos.runner.outcome import StageFailed
from magos.runner.paths import Paths

_TEXTS: Final = re.compile(r"(no\s+space\s+left\s+on\s+device|disk\s+quota\s+exceeded)", re.IGNORECASE)
_MI: Final = 1024**2
_NEARLY_FULL: Final = 0.02
_CONSUMERS: Final = 3
_LONGEST_NAME: Final = 40
_LONGEST_CAUSE: Final = 300


class _Place(msgspec.Struct, frozen=True):
    """A volume of the pod at ``path``; ``on_claim`` if it is the Workspace's own."""

    name: str
    path: Path
    on_claim: bool = False


class _Space(msgspec.Struct, frozen=True):
    """Bytes and names (inodes) that a file system has and has left; without a limit there are no names to count."""

    bytes: int
    free: int
    names: int
    free_names: int

    @property
    def share(self) -> float:
        """The share of what is scarcest that is left."""
        return min(self.free / max(self.bytes, 1), self.free_names / self.names if self.names else 1.0)


def no_space(error: BaseException) -> bool:
    """True if ``error`` says so itself or was caused by what does."""
    return any(
        is_full(each) or (isinstance(each, StageFailed) and each.reason is Reason.VOLUME_FULL)
        for each in _causes(error)
    )


def tool_met_full(paths: Paths, output: bytes) -> bool:
    """True if a tool whose output ends with ``output`` failed because a volume of the pod is full."""
    text = output.decode("utf-8", "replace")
    if not _TEXTS.search(text):
        return False
    return _named(paths, text) is not None or min(_space(each).share for each in _places(paths)) < _NEARLY_FULL


def explained(paths: Paths, stage: Stage, workspace: str, error: Exception) -> Exception:
    """Return ``error``, which has ended a stage; if it met a full volume, as the failure that tells about the volume.

    That says which volume is full, what it has and has left, what takes most of it, and what to do.
    """
    if not no_space(error):
        return error
    said = next((str(each) for each in _causes(error) if str(each)), "")
    names = [str(each.filename) for each in _causes(error) if isinstance(each, OSError) and each.filename]
    place = _named(paths, "\n".join([said, *names])) or _scarcest(paths, stage)
    cause = error.message if isinstance(error, StageFailed) else said
    message = compose(
        "{full}; {cause}; {remedy}",
        full=_sizes(place),
        cause=shorten(cause, _LONGEST_CAUSE),
        remedy=_remedy(place, workspace),
    )
    return StageFailed(Reason.VOLUME_FULL, message)


def _scarcest(paths: Paths, stage: Stage) -> _Place:
    """Return the volume with the least space of those that ``stage`` writes to: what it wrote may be gone by now."""
    found = [place for place in _places(paths) if stage is Stage.TERRAFORM or not place.on_claim]
    nearly = [place for place in found if _space(place).share < _NEARLY_FULL]
    return min(nearly or found, key=lambda each: _space(each).free)


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in found:  # an error may be raised from itself
        found.append(cause)
        yield cause
        cause = cause.__cause__


def _places(paths: Paths) -> list[_Place]:
    found = [
        _Place("the Workspace's volume", paths.workspace_data, on_claim=True),
        _Place(f"the pod's volume {runnerpod.WORK_VOLUME}", paths.work),
        _Place(f"the pod's volume {runnerpod.SCRATCH_VOLUME}", paths.inside(runnerpod.SCRATCH_PATH)),
        _Place("the pod's volume for temporary files", paths.tmp),
    ]
    return [place for place in found if _space(place).bytes]


def _named(paths: Paths, text: str) -> _Place | None:
    """Return the volume of which ``text`` names a path; of several the one it names last, where the cause stands."""
    found = [(text.rfind(f"{place.path}/"), place) for place in _places(paths)]
    position, place = max(found, key=lambda each: each[0])
    return place if position >= 0 else None


def _space(place: _Place) -> _Space:
    try:
        with Folder.at(place.path) as folder:
            found = folder.space()
    except OSError:  # not in this stage
        return _Space(0, 0, 0, 0)
    return _Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, found.f_files, found.f_favail)


def _sizes(place: _Place) -> Message:
    """Return what is said of the volume: what is left of what it has, and what takes most of it."""
    space = _space(place)
    if space.names and space.free_names / space.names < _NEARLY_FULL <= space.free / space.bytes:
        left = f"{space.free_names} of {space.names} names (inodes) free"
    else:
        left = f"{_mebibytes(space.free)} of {_mebibytes(space.bytes)} free"
    said = compose("{name} ({path}) is full: {left}", name=place.name, path=_inside(place), left=left)
    largest = ", ".join(f"{_short(name)} {_mebibytes(size)}" for name, size in _consumers(place))
    return compose("{said}; most is taken by {largest}", said=said, largest=largest) if largest else said


def _consumers(place: _Place) -> list[tuple[str, int]]:
    try:
        with Folder.at(place.path) as folder:
            sizes = [(name, folder.usage(name)) for name in folder.names()]
    except OSError:  # what cannot be listed is not told; that the volume is full is
        return []
    largest = sorted(sizes, key=lambda each: (-each[1], each[0]))
    return [each for each in largest if each[1]][:_CONSUMERS]


def _inside(place: _Place) -> str:
    return f"/{place.path.name}"


def _short(name: str) -> str:
    """Return a name that code of the configuration may have chosen, as one short word."""
    shown = name if name.isprintable() and " " not in name else ascii(name)
    return shorten(shown, _LONGEST_NAME)


def _mebibytes(size: int) -> str:
    if size < _MI:
        return f"{size // 1024} KiB"
    return f"{size / _MI:.0f} MiB" if size >= 10 * _MI else f"{size / _MI:.1f} MiB"


def _remedy(place: _Place, workspace: str) -> Message:
    if not place.on_claim:
        return compose(
            "free the disk of the node, or use nodes with more of it; what the module brings and downloads has to fit"
        )
    return compose(
        "enlarge spec.resources.requests.storage of PersistentVolumeClaim {claim}, or remove what the configuration"
        " keeps on the volume; the next run removes what earlier runs left by itself",
        claim=volume_claim_name(workspace) if workspace else "of the Workspace",
    )
