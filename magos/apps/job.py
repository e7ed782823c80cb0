"""Composition root of ``magos-job``, PID 1 of every stage container."""

import sys

from magos.runner.main import run_stage

__all__ = ["main"]


def main() -> None:
    """Run the stage named on the command line and end the process with its exit code."""
    sys.exit(run_stage(sys.argv[1:]))
