"""``python -m tests.bench --json [NAME...]``: measure and print one JSON object on standard output."""

import argparse
import json
import sys

from tests.bench.figures import NAMES, measure


def main() -> int:
    """Parse, measure, print; 2 for an unknown figure."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures figures, all without a NAME.")
    parser.add_argument("--json", action="store_true", required=True, help="print one JSON object")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    arguments = parser.parse_args()
    try:
        figures = measure(arguments.names)
    except KeyError as error:
        print(f"scripts/bench: there is no figure {error}; known: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
