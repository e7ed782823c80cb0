"""What waits for the run history and the log archive, and what will never get there (spec §12.1)."""

from collections.abc import Iterable

from magos.adapters.archivist.ledger import Ledger
from magos.reconcilers.archive.keeping import Loss
from magos.runtime.manager.metrics import Family, Metrics, Sample


class ArchiveMetrics:
    """Observes an archivist."""

    def __init__(self, metrics: Metrics, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lost = metrics.counter(
            "archive_given_up_total", "Records and logs that will never be stored, by reason.", ("reason",)
        )
        for loss in Loss:
            self._lost.declare(str(loss))
        metrics.collect(self._collect)

    def given_up(self, loss: Loss) -> None:
        """Count a loss."""
        self._lost.add(str(loss))

    def _collect(self) -> Iterable[Family]:
        yield Family(
            name="archive_backlog",
            help="Jobs and records that wait to be stored.",
            samples=[Sample((), float(self._ledger.waiting()))],
        )
