"""What a deleted Workspace leaves is kept until it is stored, and then disposed of."""

from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, ConfigMap
from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.workspace import RunRecord, RunResult
from magos.reconcilers.archive.keeping import Standing
from magos.reconcilers.archive.parcels import dispose, open_parcel, post
from magos.runtime.decision import Delete, Outcome
from tests.unit.reconcilers.archive.test_jobs import workspace

RECORDS = tuple(RunRecord(run_id=f"run-{number}", result=RunResult.FAILED) for number in range(2))


def stored() -> ConfigMap:
    manifest = post(workspace(Phase.DELETING), RECORDS, "magos-system").manifest
    assert isinstance(manifest, ConfigMap)
    return replace(manifest, metadata=replace(manifest.metadata, uid="parcel"))


def test_a_parcel_says_whose_records_it_holds() -> None:
    found = open_parcel(stored())
    assert found is not None
    assert (found.uid, found.namespace, found.name, found.project) == ("ws", "team-a", "network", "platform")
    assert found.records == RECORDS
    assert stored().metadata.name == "magos-outbox-ws"


def test_a_parcel_goes_only_when_all_of_it_is_stored() -> None:
    item = stored()
    assert dispose(item, open_parcel(item), Standing(stored=frozenset(RECORDS[:1]))).effects == ()
    gone = Delete(kind=CONFIG_MAPS, namespace="magos-system", name="magos-outbox-ws", uid="parcel")
    assert dispose(item, open_parcel(item), Standing(stored=frozenset(RECORDS))).effects == (gone,)


def test_what_somebody_else_has_written_is_left_alone() -> None:
    foreign = ConfigMap(metadata=ObjectMeta(name="magos-outbox-x", namespace="magos-system"), data={"outbox.json": "["})
    assert open_parcel(foreign) is None
    assert open_parcel(replace(stored(), metadata=ObjectMeta(name="magos-outbox-ws"))) is None
    decision = dispose(foreign, None, Standing())
    assert (decision.effects, decision.outcome) == ((), Outcome.INVALID)
