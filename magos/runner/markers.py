"""Started markers: a pod that is started twice runs the tool once (spec §5.2, §7.1).

The marker of a phase is created exclusively on the Workspace's volume before the tool starts; the file system decides.
"""

import os

from magos.runner.config import RunConfig
from magos.runner.files import remove
from magos.runner.outcome import StageFailed, phase_failed
from magos.runner.paths import Paths

__all__ = ["claim_start", "remove_other_runs"]


def claim_start(paths: Paths, run: RunConfig) -> None:
    """Create ``<phase>.started`` in the run's folder, durably; a marker that exists fails the phase."""
    folder = paths.runs / run.run_id
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / f"{run.phase}.started"
    try:
        descriptor = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise StageFailed(
            phase_failed(run.phase),
            f"the {run.phase} of run {run.run_id} was started before: this pod was started a second time and ran"
            " nothing; the outcome of the first start is unknown, the next run plans afresh",
        ) from None
    os.fsync(descriptor)
    os.close(descriptor)
    # The entry itself must survive a crash of the node, or the second start would not find it.
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def remove_other_runs(paths: Paths, run: RunConfig) -> int:
    """Remove what other runs left beside this one; plan files hold secrets. Return how many there were."""
    others = [entry for entry in paths.runs.iterdir() if entry.name != run.run_id]
    for entry in others:
        remove(entry)
    return len(others)
