"""The queue in status is bounded, whatever a run is like."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from magos.api.workspace import RunRecord, RunResult, UsedVariable
from magos.reconcilers.archive.outbox import LARGEST_OUTBOX, LARGEST_RECORD, appended, bounded, remaining

TEXTS = st.text(max_size=3000)
VARIABLES = st.lists(st.builds(UsedVariable, name=TEXTS, source=TEXTS), max_size=12)


def record(number: int, **fields: object) -> RunRecord:
    return msgspec.structs.replace(RunRecord(run_id=f"run-{number:04}", result=RunResult.APPLIED), **fields)


@given(message=st.text(max_size=20000), principal=TEXTS, variables=VARIABLES)
def test_no_run_makes_a_record_larger_than_its_bound(
    message: str, principal: str, variables: list[UsedVariable]
) -> None:
    full = record(1, message=message, principal=principal, variables=tuple(variables))
    cut = bounded(full)
    assert len(msgspec.json.encode(cut)) <= 2 * LARGEST_RECORD  # texts of many bytes a character
    assert cut.variables == full.variables[: len(cut.variables)]
    assert bounded(cut) == cut


def test_the_queue_holds_the_newest_runs_and_no_more_than_may_wait() -> None:
    outbox: tuple[RunRecord, ...] = ()
    for number in range(7):
        outbox = appended(outbox, record(number), 5)
    assert [each.run_id for each in outbox] == [f"run-{number:04}" for number in range(2, 7)]


def test_a_run_is_in_the_queue_once_as_it_was_recorded_last() -> None:
    outbox = appended((record(1), record(2)), record(1, message="new"), 5)
    assert [(each.run_id, each.message) for each in outbox] == [("run-0002", ""), ("run-0001", "new")]


def test_the_queue_fits_into_a_status_whatever_retention_says() -> None:
    variables = tuple(UsedVariable(name=f"v{number}" * 20, source="Secret/s k") for number in range(100))
    outbox: tuple[RunRecord, ...] = ()
    for number in range(200):
        outbox = appended(outbox, record(number, variables=variables, message="m" * 5000), 10**6)
    assert len(msgspec.json.encode(outbox)) <= LARGEST_OUTBOX + 1024
    assert outbox[-1].run_id == "run-0199"


def test_a_record_leaves_only_as_it_was_stored() -> None:
    stored = record(1)
    assert remaining((stored, record(2)), {stored}) == (record(2),)
    assert remaining((record(1, message="another end"),), {stored}) == (record(1, message="another end"),)
