"""Composition root of ``magos-job``, PID 1 of every stage container."""

import signal
import sys


def main() -> None:
    """Run the stage named on the command line and end the process with its exit code."""
    # The kernel drops a SIGTERM that PID 1 has no handler for yet; a blocked one waits until there is a handler.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    from magos.runner.main import run_stage

    sys.exit(run_stage(sys.argv[1:]))
