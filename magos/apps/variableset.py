"""Composition root of ``magos-variableset-controller``."""

import sys
from collections.abc import Mapping

from magos.apps.controllers import Build, run_program
from magos.apps.variableset_composition import variableset_controller

__all__ = ["main"]


def main() -> None:
    """Run the variableset controller; ends the process with its exit code."""
    sys.exit(run_program("variableset", _prepare))


def _prepare(environ: Mapping[str, str]) -> Build:
    del environ  # nothing but the common settings
    return variableset_controller
