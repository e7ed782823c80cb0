"""The runner's own surroundings: a release mirror with the real tool, and a Workspace on top of it."""

from tests.e2e.runner.conftest import _pid_namespace, mirror, workspace

__all__ = ["_pid_namespace", "mirror", "workspace"]
