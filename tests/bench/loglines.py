"""How long a line of a running apply takes from the process that prints it to a client of the live log.

Each line carries the time at which it was printed, and client and pod share a clock. On the way are the tool, the
masking of secrets, the node's log file, which the one-machine mode looks at every 0.1 s, and the API server.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from magos.api.workspace import Workspace
from tests.e2e.console import Console
from tests.e2e.onemachine import one_machine
from tests.e2e.talking import PRINTED, Talking

__all__ = ["NAMES", "measure"]

NAMES = ("log.line_latency_ms_p99",)

_LINES = 1000
_PAUSE_SECONDS = 0.02
_FIRST = 20
"""Lines that are left out: what was printed before the client came."""


def measure() -> dict[str, float]:
    """One apply, whose lines are followed until there are enough."""
    with tempfile.TemporaryDirectory() as folder, one_machine(Path(folder), {}, extras=True) as here:
        namespace = here.namespace()
        talking = Talking(here, namespace, pause=_PAUSE_SECONDS)
        talking.create()
        here.wait(namespace, talking.name, _applies)
        with Console(here) as console:
            taken = _latencies(console, talking.path)
        talking.stop()
        here.wait_applied(namespace, talking.name, talking.revision)
    middle, last = statistics.median(taken), statistics.quantiles(taken, n=100)[98]
    print(f"log lines: {len(taken)}, median {middle:.0f} ms, p99 {last:.0f} ms, most {max(taken)} ms", file=sys.stderr)
    return {NAMES[0]: round(last)}


def _applies(workspace: Workspace) -> bool:
    return workspace.status.current_run is not None and bool(workspace.status.current_run.apply_job)


def _latencies(console: Console, path: str) -> list[int]:
    """Return the milliseconds that each line was on its way."""
    events = console.events_at(f"{path}/runs/current/log/stream", phase="apply")
    taken: list[int] = []
    for fields in events:
        now = time.time_ns() // 1_000_000
        printed = PRINTED.search(json.loads(fields["data"]).get("line", ""))
        if printed is not None:
            taken.append(now - int(printed[1]))
        if len(taken) == _FIRST + _LINES:
            break
    events.close()
    assert len(taken) == _FIRST + _LINES, f"the log ended after {len(taken)} lines"
    return taken[_FIRST:]
