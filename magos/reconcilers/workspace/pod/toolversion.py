"""The oldest tool that a run may use: its module installer runs in the stage that can use Git credentials.

The stage keeps the credentials themselves out of reach (``magos.git.gitaccess``). What is left to the installer is the
code that it runs, and older ones let the source of a module choose it.
"""

import re
from typing import Final

from magos.api.tool import Distribution

MINIMUM_TERRAFORM: Final = "1.9.1"
"""The first release whose installer does not execute what a module's repository says (CVE-2024-6257)."""

MINIMUM_OPENTOFU: Final = "1.9.0"
"""The first minor version all of whose releases are free of CVE-2024-6257 and CVE-2024-3817."""

SETTINGS: Final = {
    Distribution.TERRAFORM: "MAGOS_MINIMUM_TERRAFORM_VERSION",
    Distribution.OPENTOFU: "MAGOS_MINIMUM_OPENTOFU_VERSION",
}
"""By which setting of the workspace controller an administrator moves the minimum."""

_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)


def precedes(version: str, minimum: str) -> bool:
    """Tell whether ``version`` is older than ``minimum`` (Semantic Versioning 2.0.0, item 11); both are versions."""
    return _order(version) < _order(minimum)


def _order(version: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    core, _, pre = version.partition("+")[0].partition("-")
    # Numbers are older than words, and any pre-release is older than the release.
    parts = tuple((not _DIGITS.fullmatch(p), int(p) if _DIGITS.fullmatch(p) else 0, p) for p in pre.split(".") if p)
    return tuple(int(part) for part in core.split(".")), not pre, parts
