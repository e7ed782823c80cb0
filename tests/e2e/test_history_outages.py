"""Database and bucket that are killed at any time delay history and lose none of it (specification 8.2)."""

from pathlib import Path

from tests.e2e.onemachine import OneMachine
from tests.e2e.outages import tally


def test_outages_of_database_and_bucket_lose_no_record_and_no_log(equipped: OneMachine, tmp_path: Path) -> None:
    told = tally(equipped, 1, workspaces=4, rounds=2, folder=tmp_path)
    assert (told.runs, told.lost, told.unequal) == (8, (), ())
    assert told.kills > 1, "nothing was killed: the test proves nothing"
