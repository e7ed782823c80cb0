"""How many attacks are kept as tests, and how many of them succeed.

An attack is a test or a case of a test in ``tests/e2e/hostile``; one that fails, or that cannot be carried out, counts
as one that succeeded. A test that was skipped attacked nothing.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

__all__ = ["measure", "tally"]

_ROOT = Path(__file__).parents[2]
_TIER = "tests/e2e/hostile"


def measure() -> dict[str, float]:
    """Run the tier; each attack that succeeds is named on standard error."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", _TIER]
        ended = subprocess.run(command, cwd=_ROOT, stdout=sys.stderr, check=False)
        if ended.returncode not in (0, 1):
            raise RuntimeError(f"pytest {_TIER} ended with {ended.returncode}: its output is above")
        attacks, succeeded = tally(report.read_bytes())
    for name in succeeded:
        print(f"succeeded: {name}", file=sys.stderr)
    return {"hostile.attacks": attacks, "hostile.succeeded": len(succeeded)}


def tally(report: bytes) -> tuple[int, list[str]]:
    """Return how many attacks a report of pytest (JUnit XML) tells of, and the names of those that succeeded."""
    root = ET.fromstring(report)  # noqa: S314 - pytest has just written it
    succeeded: dict[str, bool] = {}
    for case in root.iter("testcase"):
        if case.find("skipped") is not None:
            continue
        name = f"{case.get('classname')}::{case.get('name')}"  # twice if a fixture fails after the test
        broken = case.find("failure") is not None or case.find("error") is not None
        succeeded[name] = succeeded.get(name, False) or broken
    return len(succeeded), [name for name, broken in succeeded.items() if broken]
