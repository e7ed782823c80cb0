"""State that an apply could not hand to its backend.

The tools then leave it as ``errored.tfstate`` in the working directory, which ends with the pod. It is moved to the
Workspace's volume, where the next plan hands it to the backend before anything else: a plan beside it would create
everything again.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from magos.runner.config import RunConfig
from magos.runner.files import open_regular, remove
from magos.runner.paths import Paths

__all__ = ["keep_unsaved_state", "shown_path", "unsaved_states"]

_LEFT_BY_TOOL: Final = "errored.tfstate"


def keep_unsaved_state(paths: Paths, run: RunConfig, module: Path) -> Path | None:
    """Move what the tool left in ``module`` to the volume, durably and readable by nobody else; None if it left none.

    ``OSError`` if that is impossible, for instance because the volume is full.
    """
    left = module / _LEFT_BY_TOOL
    try:
        with open_regular(left) as source:
            kept = paths.unsaved_state / f"{run.run_id}.tfstate"
            kept.parent.mkdir(parents=True, exist_ok=True)
            remove(kept)
            descriptor = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                os.fsync(descriptor)
    except FileNotFoundError:
        return None
    remove(left)
    return kept


def unsaved_states(paths: Paths) -> list[Path]:
    """Return the kept states, oldest run first."""
    return sorted(paths.unsaved_state.glob("*.tfstate")) if paths.unsaved_state.is_dir() else []


def shown_path(paths: Paths, kept: Path) -> str:
    """Return where ``kept`` lies as a container sees it."""
    return f"/{kept.relative_to(paths.root)}"
