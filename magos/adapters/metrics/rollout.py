"""What the rollout controller exposes about its Rollouts (spec §12.1).

Gauges are read off the cache at each scrape. Transitions are counted as the cache sees them, in a plain dictionary,
for as long as the Rollout exists.
"""

from collections.abc import Iterable

from magos.api.phases import Phase
from magos.api.rollout import Rollout
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.controller.workqueue import Key
from magos.runtime.manager.metrics import Family, FamilyType, Sample

_Move = tuple[int, int]


class RolloutMetrics:
    """Watches one informer; ``collect`` is a ``metrics.Collector``."""

    def __init__(self, rollouts: Informer[Rollout], *, per_object: bool) -> None:
        self._rollouts = rollouts
        self._per_object = per_object
        self._moves: dict[Key, dict[_Move, int]] = {}
        if per_object:
            rollouts.add_handler(self._changed)

    def collect(self) -> Iterable[Family]:
        """Return the families of this moment; on the loop."""
        rollouts = self._rollouts.cache.list()
        active = sum(1 for each in rollouts if each.status.phase is Phase.RECONCILING)
        yield Family(
            name="rollout_active_count",
            help="Rollouts in phase Reconciling.",
            samples=[Sample((), float(active))],
        )
        if not self._per_object:
            return
        yield Family(
            name="rollout_current_level",
            help="Index of the active step; the number of steps when all are complete.",
            labels=("namespace", "name"),
            samples=[
                Sample((each.metadata.namespace, each.metadata.name), float(each.status.current_step))
                for each in rollouts
                if each.status.current_step is not None
            ],
        )
        yield Family(
            name="rollout_level_transitions_total",
            help="Changes of the active step.",
            type=FamilyType.COUNTER,
            labels=("namespace", "name", "from", "to"),
            samples=[
                Sample((key.namespace, key.name, str(before), str(after)), float(count))
                for key, moves in sorted(self._moves.items())
                for (before, after), count in sorted(moves.items())
            ],
        )

    def _changed(self, change: Change[Rollout]) -> None:
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                self._moves.pop(Key(old.metadata.namespace, old.metadata.name), None)
            return
        if old is None or old.metadata.uid != new.metadata.uid:
            return
        before, after = old.status.current_step, new.status.current_step
        if before is None or after is None or before == after:
            return
        moves = self._moves.setdefault(Key(new.metadata.namespace, new.metadata.name), {})
        moves[before, after] = moves.get((before, after), 0) + 1
