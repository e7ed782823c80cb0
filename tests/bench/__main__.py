"""``python -m tests.bench --json [NAME...]``: measure and print one JSON object on standard output."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from tests.bench.figures import NAMES, measure


def main() -> int:
    """Parse, measure, print; 2 for an unknown figure."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures figures, all without a NAME.")
    parser.add_argument("--json", action="store_true", required=True, help="print one JSON object")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    arguments = parser.parse_args()
    try:
        with _undisturbed_output() as output:
            print(json.dumps(measure(arguments.names), indent=2), file=output)
    except KeyError as error:
        print(f"scripts/bench: there is no figure {error}; known: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    return 0


@contextmanager
def _undisturbed_output() -> Iterator[TextIO]:
    """Yield standard output; what anybody else writes there meanwhile, child processes too, goes to standard error."""
    with os.fdopen(os.dup(1), "w") as output:
        os.dup2(2, 1)
        try:
            yield output
        finally:
            sys.stdout.flush()
            os.dup2(output.fileno(), 1)


if __name__ == "__main__":
    sys.exit(main())
