"""Where things lie in a stage container (spec §5.4), all below one root.

In a pod the root is ``/``. A composition root may pass another one, so that the stages can be run on a developer's
machine; nothing in the environment changes it.
"""

from os.path import normpath
from pathlib import Path
from typing import Final

import msgspec

from magos.api import runnerpod
from magos.folder import Folder

TOOLS: Final = "tools"
"""On the volume: downloaded archives with checksum file and signature."""

UNSAVED: Final = "unsaved-state"
"""On the volume: states that a backend did not take, by run."""


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
        return self.inside(runnerpod.DATA_PATH)

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
        return self.work / "source"

    @property
    def tool(self) -> Path:
        """The unpacked, verified tool; of this pod only."""
        return self.work / runnerpod.TOOL_FOLDER

    @property
    def data(self) -> Path:
        """TF_DATA_DIR: modules, backend settings and provider links; of this pod only (a kept one breaks init)."""
        return self.work / "data"

    @property
    def work(self) -> Path:
        """The pod's work volume."""
        return self.inside(runnerpod.WORK_PATH)

    @property
    def tmp(self) -> Path:
        """The container's own temporary files."""
        return self.inside(runnerpod.TMP_PATH)

    @property
    def mounted_secrets(self) -> Path:
        """Where Kubernetes and injectors mount tokens."""
        return self.inside(runnerpod.SECRETS_PATH)

    @property
    def policies(self) -> Path:
        """The policies to evaluate, if any were selected."""
        return self.inside(runnerpod.POLICIES_PATH)

    @property
    def termination_log(self) -> Path:
        """What the kubelet reads as the container's message."""
        return self.inside(runnerpod.TERMINATION_LOG)

    def scratch(self, stage: str) -> Path:
        """The folder that only ``stage`` may write to and later stages may read."""
        return self.inside(runnerpod.SCRATCH_PATH) / stage

    def status(self, stage: str) -> Path:
        """The status a stage leaves."""
        return self.scratch(stage) / "status.json"

    @property
    def plan_json(self) -> Path:
        """The plan as JSON: holds secrets, never leaves the pod."""
        return self.scratch(runnerpod.Stage.RENDER) / "plan.json"
