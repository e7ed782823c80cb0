"""What one run of a Workspace costs the API server, and what a quiet system costs it, from the audit log."""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from magos.api.annotations import EXECUTION_ALLOWED
from tests.e2e.onemachine import OneMachine, one_machine
from tests.envtest.audit import WRITE_VERBS, Request

__all__ = ["measure"]

_CONTROLLERS = "system:serviceaccount:magos-system:magos-"
_QUIET_SECONDS = 60.0


def _controllers(requests: list[Request]) -> list[Request]:
    """The controllers' requests without Events and lease renewals."""
    return [r for r in requests if r.user.startswith(_CONTROLLERS) and r.resource not in ("events", "leases")]


def _run(here: OneMachine, namespace: str) -> dict[str, float]:
    mark = here.audit.mark()
    here.apply(here.workspace_document(namespace, "measured"))
    here.wait_applied(namespace, "measured", here.revision)
    here.wait(namespace, "measured", lambda w: EXECUTION_ALLOWED not in w.metadata.annotations)
    requests = _controllers(here.audit.requests(mark))
    status = [i for i, r in enumerate(requests) if r.resource == "workspaces/status" and r.verb in WRITE_VERBS]
    pending_to_applied = requests[status[0] : status[-1] + 1]
    verbs = Counter(r.verb for r in pending_to_applied)
    print(f"one run, requests by verb: {dict(verbs)}", file=sys.stderr)
    writes = [r for r in pending_to_applied if r.verb in WRITE_VERBS]
    return {"run.api_writes": len(writes), "run.api_requests": len(pending_to_applied)}


def _idle(here: OneMachine) -> dict[str, float]:
    mark = here.audit.mark()
    time.sleep(_QUIET_SECONDS)  # the figure is a rate: it needs a span of time, and decides nothing
    writes = [r for r in _controllers(here.audit.requests(mark)) if r.verb in WRITE_VERBS]
    return {"idle.writes_per_minute": len(writes) * 60 / _QUIET_SECONDS}


def measure() -> dict[str, float]:
    """One Workspace from Pending to Applied, then a minute of quiet."""
    with tempfile.TemporaryDirectory() as folder, one_machine(Path(folder), {}) as here:
        namespace = here.namespace()
        return _run(here, namespace) | _idle(here)
