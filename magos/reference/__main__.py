"""Write the reference pages, or tell whether they are up to date: ``python -m magos.reference [--check]``.

Exit codes: 0 written or up to date, 1 with ``--check`` if a file differs or is missing, 2 wrong usage.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from magos.api.schema.writing import bring_up_to_date
from magos.reference.pages import command_line_page, configuration_page, failures_table, reasons_page, with_table
from magos.reference.server import openapi_text

_ERRORS = "docs/behaviour/errors.md"


def generated(root: Path) -> Mapping[str, str]:
    """Return the text of every generated page by its path; ``root`` has the pages that are generated in part."""
    errors = (root / _ERRORS).read_text(encoding="utf-8")
    return {
        "docs/spec/command-line.md": command_line_page(),
        "docs/spec/configuration.md": configuration_page(),
        "docs/spec/openapi.json": openapi_text(),
        "docs/spec/reasons.md": reasons_page(),
        _ERRORS: with_table(errors, failures_table()),
    }


def main(arguments: list[str]) -> int:
    """Run the generator; ``arguments`` are those behind the program's name."""
    parser = argparse.ArgumentParser(prog="gen", description="Generate reference pages from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page is not up to date")
    parser.add_argument("--root", type=Path, default=Path(), help="root of the repository (default: here)")
    options = parser.parse_args(arguments)
    current = bring_up_to_date(generated(options.root), options.root, origin="the code", check=options.check)
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
