"""Leases (``coordination.k8s.io/v1``): who of several replicas works."""

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta


class LeaseSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The holder's claim. Times are RFC 3339 with microseconds and only ever compared for equality.

    A released Lease has the holder ``""``, one that was never held has none.
    """

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One Lease."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


LEASES = Kind(group="coordination.k8s.io", version="v1", plural="leases", name="Lease", type=Lease)
