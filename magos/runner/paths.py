"""Where things lie in a stage container (spec §5.4), all below one root.

In a pod the root is ``/``. A composition root may pass another one, so that the stages can be run on a developer's
machine; nothing in the environment changes it.
"""

from pathlib import Path

import msgspec

__all__ = ["Paths"]


class Paths(msgspec.Struct, frozen=True):
    """The fixed places of the stages below ``root``."""

    root: Path = Path("/")

    def inside(self, container_path: str) -> Path:
        """Return where the absolute path ``container_path``, as the environment names it, lies below the root."""
        return self.root / container_path.lstrip("/")

    @property
    def workspace_data(self) -> Path:
        """The Workspace's persistent volume."""
        return self.root / "workspace-data"

    @property
    def runs(self) -> Path:
        """Per run: plan file, dependency lock file, started markers."""
        return self.workspace_data / "runs"

    @property
    def tool_cache(self) -> Path:
        """Downloaded archives with checksum file and signature."""
        return self.workspace_data / "tools"

    @property
    def unsaved_state(self) -> Path:
        """States that a backend did not take, by run."""
        return self.workspace_data / "unsaved-state"

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
    def plan_copy(self) -> Path:
        """The plan an apply executes: on a memory-backed volume that no other container has."""
        return self.root / "plan" / "run.tfplan"

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
