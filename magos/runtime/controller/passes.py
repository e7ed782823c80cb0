"""What metrics, logs and tests get to know about passes."""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Outcome


class Result(StrEnum):
    """How a pass is counted; the values are those of controller-runtime's metrics."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    REQUEUE = "requeue"
    ERROR = "error"


class PassReport(Struct, frozen=True, kw_only=True):
    """One pass, for observers; ``seconds`` of work, writes included, waiting in the queue not."""

    controller: str
    key: Key
    result: Result
    seconds: float
    outcome: Outcome | None = None
    writes: int = 0
    error: str = ""


class PassObserver(Protocol):
    """Follows every pass, synchronously."""

    def passed(self, report: PassReport) -> None:
        """One pass has ended."""
        ...
