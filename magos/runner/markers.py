"""Started markers: a pod that is started twice runs the tool once (spec §5.2, §7.1).

The marker of a phase is created exclusively on the Workspace's volume before the tool starts; the file system decides.
"""

from magos.api.runnerpod import RUNS, run_folder
from magos.folder import Folder, NotFolder, is_full
from magos.runner.config import RunConfig
from magos.runner.outcome import StageFailed, phase_failed


def create_start_marker(volume: Folder, run: RunConfig) -> None:
    """Create ``<phase>.started`` in the run's folder, durably; a marker that exists fails the phase.

    ``OSError`` if the volume is full.
    """
    try:
        folder = volume.made(run_folder(run.run_id))
    except OSError as error:
        if is_full(error):
            raise
        raise StageFailed(
            phase_failed(run.phase),
            f"the folder of run {run.run_id} on the Workspace's volume cannot be used ({error}); nothing ran; check"
            " what the configuration writes to the volume",
        ) from error
    try:
        with folder, folder.created(_marker(run)):
            pass
    except FileExistsError:
        raise StageFailed(
            phase_failed(run.phase),
            f"the {run.phase} of run {run.run_id} was started before: this pod was started a second time and ran"
            f" nothing; the outcome of the {run.phase} is unknown; the next run plans again",
        ) from None


def started(volume: Folder, run: RunConfig) -> bool:
    """True if this phase was started before: the pod is a second one, and the run after it may be at work already."""
    try:
        with volume.folder(run_folder(run.run_id)) as own:
            return _marker(run) in own.names()
    except OSError:  # no folder of this run, or no folder at all: whoever creates the marker finds out
        return False


def remove_other_runs(volume: Folder, run: RunConfig) -> int:
    """Remove what other runs left beside this one; plan files hold secrets. Return how many there were.

    Creates nothing: it needs no space. A link in the place of the folder is not followed and not judged here.
    """
    try:
        runs = volume.folder(RUNS)
    except (FileNotFoundError, NotFolder):
        return 0
    with runs:
        return sum(runs.remove(name) for name in runs.names() if name != run.run_id)


def _marker(run: RunConfig) -> str:
    return f"{run.phase}.started"
