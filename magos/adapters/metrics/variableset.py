"""What the variableset controller exposes about its sets (spec §12.1), read off the cache at each scrape."""

from collections.abc import Iterable

from magos.api.variableset import VariableSet
from magos.runtime.cache.cache import Cache
from magos.runtime.manager.metrics import Collector, Family, Sample


def unresolved_references(sets: Cache[VariableSet]) -> Collector:
    """Return the collector; a set that is gone has no series, one that was not judged yet has none either."""

    def collect() -> Iterable[Family]:
        yield Family(
            name="variableset_unresolved_references",
            help="References of a VariableSet without a value.",
            labels=("namespace", "name"),
            samples=[
                Sample((each.metadata.namespace, each.metadata.name), float(len(each.status.unresolved_references)))
                for each in sets.list()
                if each.status.phase is not None
            ],
        )

    return collect
