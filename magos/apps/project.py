"""Composition root of ``magos-project-controller``."""

import sys
from collections.abc import Mapping

from magos.apps.controllers import Build, run_program
from magos.apps.project_composition import project_controller

__all__ = ["main"]


def main() -> None:
    """Run the project controller; ends the process with its exit code."""
    sys.exit(run_program("project", _prepare))


def _prepare(environ: Mapping[str, str]) -> Build:
    del environ  # nothing but the common settings
    return project_controller
