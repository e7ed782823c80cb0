"""A Workspace whose apply prints one line after the other, each with its own time, until somebody has seen enough."""

import re
from pathlib import Path
from typing import Any

from magos.local.node.volumes import claim_folder
from tests.e2e.onemachine import OneMachine
from tests.e2e.runner.pod import provisioned

__all__ = ["PRINTED", "Talking"]

PRINTED = re.compile(r"printed at (\d+)")
"""A line, with the time in milliseconds at which it was printed."""

_FOLDER = Path("/workspace-data")
_ENOUGH = "enough"
_STATE = f'terraform {{\n  backend "local" {{\n    path = "{_FOLDER}/state/terraform.tfstate"\n  }}\n}}\n'
_TALK = f'while [ ! -e {_FOLDER}/{_ENOUGH} ]; do echo "printed at $(date +%s%3N)"; sleep {{pause}}; done'


class Talking:
    """The Workspace ``talking`` of a namespace, which waits for an approval if ``autoApply`` is false."""

    name = "talking"

    def __init__(self, here: OneMachine, namespace: str, *, pause: float = 0.1) -> None:
        self._here, self._namespace = here, namespace
        self._folder = f"talking/{namespace}"
        module = _STATE + provisioned(_TALK.format(pause=pause))
        self.revision = here.here.repository.commit({f"{self._folder}/main.tf": module}, "A module that talks")

    @property
    def path(self) -> str:
        """The path of the Workspace, of its page and in the API."""
        return f"workspaces/{self._namespace}/{self.name}"

    def create(self, **overrides: Any) -> None:
        """Create it, which starts its first run."""
        source = {"path": self._folder}
        document = self._here.workspace_document(self._namespace, self.name, source=source, **overrides)
        document["metadata"]["labels"] = {"stage": "only"}
        self._here.apply(document)

    def stop(self) -> None:
        """Let the apply end after the present line."""
        path = f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{self.name}-data"
        claim = self._here.call("GET", path)
        (claim_folder(self._here.here.pods.folder, claim["metadata"]["uid"]) / _ENOUGH).touch()
