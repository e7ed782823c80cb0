"""Started markers: a pod that is started twice runs the tool once (spec §5.2, §7.1).

The marker of a phase is created exclusively on the Workspace's volume before the tool starts; the file system decides.
"""

import errno

from magos.api.runnerpod import RUNS, run_folder
from magos.folder import Folder
from magos.runner.config import RunConfig
from magos.runner.outcome import StageFailed, phase_failed

__all__ = ["create_start_marker", "remove_other_runs"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def create_start_marker(volume: Folder, run: RunConfig) -> None:
    """Create ``<phase>.started`` in the run's folder, durably; a marker that exists fails the phase.

    On a full volume what other runs left is removed first. A folder or marker that exists needs no space, so that is
    done only by the start that is the first, which would remove it anyway.
    """
    try:
        _create(volume, run)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _make_room(volume, run)
        try:
            _create(volume, run)
        except OSError as again:
            raise _unusable(run, again) from again


def _make_room(volume: Folder, run: RunConfig) -> None:
    try:
        with volume.folder(RUNS) as runs:
            for name in runs.names():
                if name != run.run_id:
                    runs.remove(name)
    except OSError as error:
        raise _unusable(run, error) from error


def _unusable(run: RunConfig, error: OSError) -> StageFailed:
    return StageFailed(
        phase_failed(run.phase),
        f"the folder of run {run.run_id} on the Workspace's volume cannot be used ({error}); nothing ran; check"
        " what the configuration writes to the volume, and whether it is full",
    )


def _create(volume: Folder, run: RunConfig) -> None:
    try:
        folder = volume.made(run_folder(run.run_id))
    except OSError as error:
        if error.errno in _FULL:
            raise
        raise _unusable(run, error) from error
    try:
        with folder, folder.created(f"{run.phase}.started"):
            pass
    except FileExistsError:
        raise StageFailed(
            phase_failed(run.phase),
            f"the {run.phase} of run {run.run_id} was started before: this pod was started a second time and ran"
            f" nothing; the outcome of the {run.phase} is unknown; the next run plans again",
        ) from None


def remove_other_runs(volume: Folder, run: RunConfig) -> int:
    """Remove what other runs left beside this one; plan files hold secrets. Return how many there were."""
    with volume.made(RUNS) as runs:
        return sum(runs.remove(name) for name in runs.names() if name != run.run_id)
