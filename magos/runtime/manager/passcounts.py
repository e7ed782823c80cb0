"""``<kind>_reconcile_total``: passes of each object by result, for as long as the object exists.

Counted in a plain dictionary and exposed by a collector, because series per object belong neither into the SDK's limits
nor on after the object's end.
"""

from collections.abc import Iterable
from typing import Any

from magos.api.meta import Kind
from magos.runtime.controller.passes import PassReport, Result
from magos.runtime.controller.view import Caches
from magos.runtime.controller.workqueue import Key
from magos.runtime.manager.metrics import Family, FamilyType, Sample

__all__ = ["PassCounts"]

_LABELS = ("namespace", "name", "result")


class PassCounts:
    """Observes the passes of one controller (``passes.PassObserver``); ``collect`` is a ``metrics.Collector``."""

    def __init__(self, controller: str, kind: Kind[Any], caches: Caches) -> None:
        self._name = f"{controller}_reconcile_total"
        self._kind = kind
        self._caches = caches
        self._counts: dict[Key, list[int]] = {}

    def passed(self, report: PassReport) -> None:
        """Count a pass; one that only brings the next at once or waits out a conflict counts as success."""
        counts = self._counts.setdefault(report.key, [0, 0])
        counts[report.result is Result.ERROR] += 1

    def collect(self) -> Iterable[Family]:
        """Return the series of the objects that exist, and forget the others."""
        cache = self._caches.of(self._kind)
        for key in [key for key in self._counts if cache.get(*key) is None]:
            del self._counts[key]
        samples = [
            Sample((key.namespace, key.name, word), float(count))
            for key, counts in sorted(self._counts.items())
            for word, count in zip(("success", "error"), counts, strict=True)
        ]
        yield Family(
            name=self._name,
            help="Reconcile passes by object and result.",
            type=FamilyType.COUNTER,
            labels=_LABELS,
            samples=samples,
        )
