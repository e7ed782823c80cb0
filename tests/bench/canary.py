"""How many secrets went in, and how many times one of them could be read anywhere but where it belongs."""

import sys
import tempfile
from pathlib import Path

from tests.e2e.canary import story, traces
from tests.e2e.onemachine import one_machine

__all__ = ["measure"]


def measure() -> dict[str, float]:
    """One story with a secret in every input; each trace is named on standard error."""
    with tempfile.TemporaryDirectory() as folder, one_machine(Path(folder), {}, extras=True) as here:
        told = story(here)
    found = traces(told)
    for trace in found:
        print(f"leak: {trace.secret} as {trace.form} in {trace.place}", file=sys.stderr)
    return {"canary.inputs": len(told.secrets), "canary.leaks": len(found)}
