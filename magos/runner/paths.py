"""Where things lie in a stage container (spec §5.4), all below one root.

In a pod the root is ``/``. A composition root may pass another one, so that the stages can be run on a developer's
machine; nothing in the environment changes it.
"""

from os.path import normpath
from pathlib import Path
from typing import Final

import msgspec

from magos.folder import Folder

__all__ = ["RUNS", "TOOLS", "UNSAVED", "Paths", "run_folder"]

RUNS: Final = "runs"
"""On the volume, per run: plan file, dependency lock file, started markers."""

TOOLS: Final = "tools"
"""On the volume: downloaded archives with checksum file and signature."""

UNSAVED: Final = "unsaved-state"
"""On the volume: states that a backend did not take, by run."""


def run_folder(run_id: str) -> str:
    """Return the name of a run's own folder on the volume."""
    return f"{RUNS}/{run_id}"


class Paths(msgspec.Struct, frozen=True):
    """The fixed places of the stages below ``root``."""

    root: Path = Path("/")

    def inside(self, container_path: str) -> Path:
        """Return where the absolute path ``container_path``, as the environment names it, lies below the root."""
        return self.root / container_path.lstrip("/")

    def made(self, container_path: str) -> Path:
        """Make the folder ``container_path`` if it is missing and return where it lies; no link on the volume counts.

        ``OSError`` if something else is in the way.
        """
        place = self.inside(normpath(container_path))
        if place != self.workspace_data and place.is_relative_to(self.workspace_data):
            with self.volume() as volume:
                volume.made(str(place.relative_to(self.workspace_data))).close()
        else:
            place.mkdir(parents=True, exist_ok=True)
        return place

    @property
    def workspace_data(self) -> Path:
        """Where the Workspace's persistent volume is mounted; code of the configuration writes to it."""
        return self.root / "workspace-data"

    @property
    def tool_cache(self) -> Path:
        """Downloaded archives with checksum file and signature."""
        return self.workspace_data / TOOLS

    def volume(self) -> Folder:
        """Hold the Workspace's volume: whatever our code does with what lies there goes through this."""
        return Folder.at(self.workspace_data)

    @property
    def source(self) -> Path:
        """The exported tree of the run's commit; of this pod only."""
        return self.root / "work" / "source"

    @property
    def tool(self) -> Path:
        """The unpacked, verified tool; of this pod only."""
        return self.root / "work" / "tool"

    @property
    def data(self) -> Path:
        """TF_DATA_DIR: modules, backend settings and provider links; of this pod only (a kept one breaks init)."""
        return self.root / "work" / "data"

    @property
    def work(self) -> Path:
        """The pod's work volume."""
        return self.root / "work"

    @property
    def tmp(self) -> Path:
        """The container's own temporary files."""
        return self.root / "tmp"

    @property
    def mounted_secrets(self) -> Path:
        """Where Kubernetes and injectors mount tokens."""
        return self.root / "var" / "run" / "secrets"

    @property
    def policies(self) -> Path:
        """The policies to evaluate, if any were selected."""
        return self.root / "policies"

    @property
    def termination_log(self) -> Path:
        """What the kubelet reads as the container's message."""
        return self.root / "dev" / "termination-log"

    def scratch(self, stage: str) -> Path:
        """The folder that only ``stage`` may write to and later stages may read."""
        return self.root / "scratch" / stage

    def status(self, stage: str) -> Path:
        """The status a stage leaves."""
        return self.scratch(stage) / "status.json"

    @property
    def plan_json(self) -> Path:
        """The plan as JSON: holds secrets, never leaves the pod."""
        return self.scratch("render") / "plan.json"
