"""What a deleted Workspace leaves of its outbox: a ConfigMap in the controllers' namespace (spec §8.2).

It is created before the Workspace's finalizer is released, and deleted once the database has all of it.
"""

import msgspec
from msgspec import Struct

from magos.api.kube import CONFIG_MAPS, ConfigMap
from magos.api.labels import OUTBOX
from magos.api.meta import ObjectMeta
from magos.api.workspace import RunRecord, Workspace
from magos.reconcilers.archive.keeping import Standing
from magos.reconcilers.archive.outbox import remaining
from magos.runtime.decision import Create, Decision, Delete, Outcome

PREFIX = "magos-outbox-"
"""What the UID of the Workspace is behind in the name of a parcel."""

_KEY = "outbox.json"


class Parcel(Struct, frozen=True, kw_only=True, rename="camel"):
    """The Workspace that the records belong to, and the records."""

    v: int = 1
    uid: str
    namespace: str
    name: str
    project: str
    records: tuple[RunRecord, ...]


_decoder = msgspec.json.Decoder(Parcel)


def post(workspace: Workspace, records: tuple[RunRecord, ...], namespace: str) -> Create:
    """Return the creation of the parcel; one that is there already was posted by a pass that died."""
    meta = workspace.metadata
    parcel = Parcel(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        project=workspace.spec.project_ref.name,
        records=records,
    )
    manifest = ConfigMap(
        metadata=ObjectMeta(name=f"{PREFIX}{meta.uid}", namespace=namespace, labels={OUTBOX: meta.uid}),
        data={_KEY: msgspec.json.encode(parcel).decode()},
    )
    return Create(kind=CONFIG_MAPS, manifest=manifest, identity=(OUTBOX,))


def open_parcel(stored: ConfigMap) -> Parcel | None:
    """Return what is in a parcel, None if it cannot be read or is not about the Workspace its label names."""
    try:
        parcel = _decoder.decode(stored.data.get(_KEY, ""))
    except (msgspec.DecodeError, RecursionError):
        return None
    return parcel if parcel.uid == stored.metadata.labels.get(OUTBOX) else None


def dispose(stored: ConfigMap, parcel: Parcel | None, standing: Standing) -> Decision:
    """Delete a parcel whose records are all stored; one that cannot be read is left to a person."""
    if parcel is None:
        return Decision(outcome=Outcome.INVALID)
    if remaining(parcel.records, standing.stored):
        return Decision(outcome=Outcome.WAITING)
    meta = stored.metadata
    if meta.deletion_timestamp is not None:
        return Decision()
    gone = Delete(kind=CONFIG_MAPS, namespace=meta.namespace, name=meta.name, uid=meta.uid)
    return Decision(effects=(gone,))
