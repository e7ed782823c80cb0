"""What is handed in is stored once, tried again with growing pauses, and shown as a backlog only after a minute."""

from datetime import UTC, datetime

from msgspec.structs import replace

from magos.adapters.archivist.ledger import LONGEST_RETRY, PATIENCE, Entry, Ledger, RunTask
from magos.api.workspace import RunRecord, RunResult
from magos.history.model import WorkspaceKey
from magos.runtime.controller.source import WakeUp
from magos.runtime.controller.workqueue import Key

OWNER = WorkspaceKey(uid="ws", namespace="team-a", name="network")
TASK = RunTask(workspace=OWNER, record=RunRecord(run_id="run-1", result=RunResult.APPLIED))


def entry(task: RunTask = TASK, now: float = 0.0) -> Entry:
    caller = (WakeUp(), Key("team-a", "network"))
    return Entry(task=task, owner="ws", since=datetime(2026, 1, 1, tzinfo=UTC), added=now, caller=caller)


def fail(ledger: Ledger, now: float, at_most: float = float("inf")) -> None:
    taken = ledger.take(now)
    assert taken is not None
    ledger.failed(*taken, "down", now, at_most)


def test_a_thing_is_taken_once_until_it_is_done_and_then_no_more() -> None:
    ledger = Ledger()
    known = ledger.put("a", entry())
    taken = ledger.take(0.0)
    assert taken == ("a", known)
    assert ledger.take(0.0) is None
    ledger.finished("a", known, TASK, None, 1.0)
    assert ledger.take(1000.0) is None
    assert ledger.put("a", entry(now=2.0)) is known
    assert ledger.take(1000.0) is None
    assert not ledger.waiting()


def test_a_record_that_changed_while_it_was_stored_is_stored_again() -> None:
    ledger = Ledger()
    known = ledger.put("a", entry())
    ledger.take(0.0)
    other = RunTask(workspace=OWNER, record=replace(TASK.record, message="another end"))
    ledger.put("a", entry(other, 1.0))
    ledger.finished("a", known, TASK, None, 2.0)
    assert known.done != known.task
    assert ledger.take(2.0) == ("a", known)


def test_pauses_grow_to_five_minutes() -> None:
    ledger = Ledger()
    ledger.put("a", entry())
    now, pauses = 0.0, []
    for _ in range(14):
        fail(ledger, now)
        due = ledger.next_due()
        assert due is not None
        pauses.append(due - now)
        now = due
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-3:] == [LONGEST_RETRY] * 3


def test_a_deadline_cuts_a_pause_short() -> None:
    ledger = Ledger()
    ledger.put("a", entry())
    now = 0.0
    for _ in range(6):
        fail(ledger, now)
        now = ledger.next_due() or 0.0
    fail(ledger, now, at_most=7.0)
    assert ledger.next_due() == now + 7.0


def test_a_backlog_is_what_has_failed_for_a_minute_and_changes_with_its_count_alone() -> None:
    ledger = Ledger()
    known = ledger.put("a", entry())
    fail(ledger, 0.0)
    assert ledger.backlog("ws", PATIENCE - 1) is None
    told = ledger.backlog("ws", PATIENCE)
    assert told is not None
    assert (told.count, told.error) == (1, "down")
    known.error = "down in other words"
    assert ledger.backlog("ws", PATIENCE + 5) == told
    assert ledger.backlog("another", PATIENCE) is None
    ledger.finished("a", known, TASK, None, PATIENCE + 6)
    assert ledger.backlog("ws", PATIENCE + 7) is None


def test_what_is_dropped_is_forgotten() -> None:
    ledger = Ledger()
    ledger.put("a", entry())
    ledger.drop("a")
    ledger.drop("a")
    assert ledger.take(0.0) is None
    assert ledger.keys_of("ws") == ()
