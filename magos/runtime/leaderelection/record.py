"""What a candidate writes into the Lease, and how long that counts."""

from datetime import timedelta

from msgspec import Struct, structs

from magos.api.kube import Lease, LeaseSpec
from magos.api.meta import ObjectMeta
from magos.runtime.clock import Clock

_RELEASED_SECONDS = 1


class Timing(Struct, frozen=True, kw_only=True):
    """Seconds. ``drift`` is the share of ``lease`` given away for clocks that run at different rates."""

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0
    drift: float = 0.2

    def __post_init__(self) -> None:
        if not (0 < 1.2 * self.retry < self.renew < self.validity < self.lease):
            raise ValueError(f"leader election needs 1.2 x retry < renew < lease x (1 - drift) < lease, got {self}")

    @property
    def validity(self) -> float:
        """How long one renewal gives the right to act, from the moment it was sent."""
        return self.lease * (1 - self.drift)


class Candidate(Struct, frozen=True, kw_only=True):
    """Who takes part: ``identity`` must be unique for each start of a process."""

    namespace: str
    name: str
    identity: str


class LeaseRecords:
    """Builds the Leases of one candidate. Everything of others in the Lease (labels, owners) is kept."""

    def __init__(self, candidate: Candidate, timing: Timing, clock: Clock) -> None:
        self._candidate = candidate
        self._timing = timing
        self._clock = clock

    def new_lease(self) -> Lease:
        """Return the record where there is no Lease yet."""
        now = self._stamp(None)
        metadata = ObjectMeta(namespace=self._candidate.namespace, name=self._candidate.name)
        return Lease(metadata=metadata, spec=self._spec(acquired=now, renewed=now, transitions=0))

    def claimed(self, lease: Lease) -> Lease:
        """Return the record for a Lease that is free, or that is ours without our knowing."""
        if lease.spec.holder_identity == self._candidate.identity:  # a claim of ours whose answer was lost
            return self.renewed(lease)
        now = self._stamp(lease.spec.renew_time)
        transitions = (lease.spec.lease_transitions or 0) + 1
        return structs.replace(lease, spec=self._spec(acquired=now, renewed=now, transitions=transitions))

    def renewed(self, lease: Lease) -> Lease:
        """Return our Lease with a new time."""
        renewed = self._stamp(lease.spec.renew_time)
        acquired = lease.spec.acquire_time or renewed
        transitions = lease.spec.lease_transitions or 0
        return structs.replace(lease, spec=self._spec(acquired=acquired, renewed=renewed, transitions=transitions))

    def released(self, lease: Lease) -> Lease:
        """Return our Lease given back: it has no holder and lasts one second."""
        spec = structs.replace(
            lease.spec,
            holder_identity="",
            lease_duration_seconds=_RELEASED_SECONDS,
            renew_time=self._stamp(lease.spec.renew_time),
        )
        return structs.replace(lease, spec=spec)

    def _spec(self, *, acquired: str, renewed: str, transitions: int) -> LeaseSpec:
        return LeaseSpec(
            holder_identity=self._candidate.identity,
            lease_duration_seconds=self._timing.lease,
            acquire_time=acquired,
            renew_time=renewed,
            lease_transitions=transitions,
        )

    def _stamp(self, last: str | None) -> str:
        """Return the wall time as MicroTime, different from the last: an equal Lease would get no new version."""
        now = self._clock.now()
        text = f"{now:%Y-%m-%dT%H:%M:%S.%fZ}"
        return text if text != last else f"{now + timedelta(microseconds=1):%Y-%m-%dT%H:%M:%S.%fZ}"
