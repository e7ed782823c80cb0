"""Composition root of ``magos-workspace-controller``."""

import sys
from collections.abc import Mapping

from magos.adapters.workspacesettings import load_workspace_settings
from magos.apps.controllers import Build, run_program
from magos.apps.workspace_composition import workspace_controller

__all__ = ["main"]


def main() -> None:
    """Run the workspace controller; ends the process with its exit code."""
    sys.exit(run_program("workspace", _prepare))


def _prepare(environ: Mapping[str, str]) -> Build:
    settings = load_workspace_settings(environ)
    return lambda assembly: workspace_controller(assembly, settings)
