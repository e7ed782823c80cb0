"""Composition root of ``magos-rollout-controller``."""

import sys
from collections.abc import Mapping

from magos.apps.controllers import Build, run_program
from magos.apps.rollout_composition import rollout_controller

__all__ = ["main"]


def main() -> None:
    """Run the rollout controller; ends the process with its exit code."""
    sys.exit(run_program("rollout", _prepare))


def _prepare(environ: Mapping[str, str]) -> Build:
    del environ  # nothing but the common settings
    return rollout_controller
