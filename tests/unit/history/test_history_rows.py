"""Records become rows that PostgreSQL takes, and every field has its column."""

import json
import re
from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from magos.api.workspace import PolicyViolation, RunRecord, UsedVariable
from magos.history import merging
from magos.history.model import PhaseRecord, WorkspaceKey
from magos.history.rows import minted_at, phase_row, run_of, run_row, storable
from magos.history.schema import load_migrations

ANY_TEXT = st.text(st.characters(categories=None), max_size=30) | st.just("\0\ud800")


@given(ANY_TEXT)
def test_a_storable_text_has_neither_nul_nor_surrogates_and_keeps_the_rest(text: str) -> None:
    stored = storable(text)
    assert "\0" not in stored
    stored.encode("utf-8")
    assert len(stored) == len(text)
    assert storable(stored) == stored
    assert all(new in (old, "\ufffd") for new, old in zip(stored, text, strict=True))


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_every_record_becomes_a_row_that_can_be_stored(one: str, two: str, three: str) -> None:
    key = WorkspaceKey(uid=one, namespace=two, name=three, project=one)
    variables = (UsedVariable(name=two, source=three, version=one),)
    run = run_row(key, RunRecord(run_id=two, message=three, started_at=one, variables=variables))
    for text in run.values():
        if isinstance(text, str):
            text.encode("utf-8")
            assert "\0" not in text
    assert "\\u0000" not in run["variables"]
    assert json.loads(run["variables"])[0].get("name", "") == storable(two)
    shown = run_of({**run, "ordered_at": run["minted_at"]}, [])
    assert (shown.run_id, shown.message, shown.workspace_uid) == (storable(two), storable(three), storable(one))


@given(ANY_TEXT | st.from_regex(r"\d{8}T\d{6}-", fullmatch=True))
def test_every_run_id_has_a_time_that_orders_it(run_id: str) -> None:
    assert minted_at(run_id).tzinfo is UTC


def test_the_time_of_a_run_id_is_that_of_its_minting() -> None:
    assert minted_at("20260102T030405-0a1b2c3d") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert minted_at("20261399T000000-0a1b2c3d") == minted_at("x") == datetime(1970, 1, 1, tzinfo=UTC)


def test_what_is_not_known_is_none_in_every_column() -> None:
    key = WorkspaceKey(uid="u", namespace="n", name="w")
    run = run_row(key, RunRecord(run_id="r"))
    assert all(run[name] is None for name in (*merging.RUN_FACTS, *merging.RUN_END))
    phase = msgspec.convert({"run_id": "r", "phase": "plan", "job": ""}, PhaseRecord)
    row = phase_row(key, phase)
    assert all(row[name] is None for name in (*merging.PHASE_FACTS, *merging.PHASE_END))
    # A number that is 0 is known.
    assert phase_row(key, msgspec.structs.replace(phase, exit_code=0))["exit_code"] == 0


def test_a_violation_keeps_its_fields_through_a_row() -> None:
    key = WorkspaceKey(uid="u", namespace="n", name="w")
    violations = (PolicyViolation(policy="p", message="m\0"),)
    plan = msgspec.convert({"run_id": "r", "phase": "plan", "job": "j"}, PhaseRecord)
    row = phase_row(key, msgspec.structs.replace(plan, violations=violations))
    shown = run_of(run_row(key, RunRecord(run_id="r")), [row])
    assert shown.violations == (PolicyViolation(policy="p", message="m\ufffd"),)


def test_every_field_has_a_column_and_every_column_is_written() -> None:
    sql = "\n".join(each.sql for each in load_migrations())
    for table, parts, record, extra in (
        ("runs", (merging.RUN_KEY, merging.RUN_FACTS, merging.RUN_END, merging.RUN_FIXED), RunRecord, {"ordered_at"}),
        (
            "run_phases",
            (merging.PHASE_KEY, merging.PHASE_FACTS, merging.PHASE_END, merging.PHASE_FIXED),
            PhaseRecord,
            set(),
        ),
    ):
        body = re.search(rf"CREATE TABLE {table} \((.*?)\n\);", sql, re.DOTALL)
        assert body is not None
        in_sql = set(re.findall(r"^    ([a-z_]+) ", body[1], re.MULTILINE))
        written = merging.columns(*parts)
        assert len(written) == len(set(written))
        assert set(written) == in_sql - extra
        fields = set(record.__struct_fields__)
        assert fields <= in_sql


def test_migrations_only_add_and_leave_the_transaction_to_their_caller() -> None:
    for each in load_migrations():
        words = re.sub(r"--[^\n]*", "", each.sql).upper()
        assert not re.search(r"\b(BEGIN|COMMIT|ROLLBACK|DROP|TRUNCATE|DELETE|RENAME|CONCURRENTLY)\b", words), each.name
        assert re.fullmatch(r"\d{4}_[a-z_]+", each.name)
