"""How what is written about a run, or a phase, becomes one row, in whatever order and however often it is written.

1. What is not known (NULL) never replaces what is.
2. What was written at or after the end replaces what was written before it, never the other way round.
3. How it ended belongs together and is decided once: the first end that is written stays, with its time and reason.
   What was said of the reason before the end does not outlive it.
"""

from collections.abc import Sequence
from typing import Final

RUN_KEY: Final = ("ws_uid", "run_id")
RUN_FACTS: Final = (
    "project", "trigger", "target_revision", "revision", "principal", "approved_by", "approval_kind", "variables",
    "spec_hash", "started_at",
)  # fmt: skip
RUN_END: Final = ("finished_at", "result", "reason", "message")
RUN_FIXED: Final = ("namespace", "workspace", "minted_at")

PHASE_KEY: Final = (*RUN_KEY, "phase")
PHASE_FACTS: Final = (
    "job", "pod", "started_at", "plan_digest", "terraform_version", "log_key", "log_bytes", "log_error", "changes",
    "violations", "policies_evaluated",
)  # fmt: skip
PHASE_END: Final = ("finished_at", "result", "exit_code", "reason")
PHASE_FIXED: Final = ("minted_at",)

_JSON: Final = frozenset({"variables", "changes", "violations"})


def ended(row: str) -> str:
    """Return the SQL condition that the run or phase in ``row`` has ended."""
    return f"({row}.result IS NOT NULL OR {row}.finished_at IS NOT NULL)"


def upsert(table: str, key: Sequence[str], facts: Sequence[str], end: Sequence[str], fixed: Sequence[str]) -> str:
    """Return the statement that merges a row; its parameters are the columns of :func:`columns`."""
    old, new = ended("old"), ended("excluded")
    settings = [
        f"{name} = CASE WHEN {new} OR NOT {old} THEN COALESCE(excluded.{name}, old.{name})"
        f" ELSE COALESCE(old.{name}, excluded.{name}) END"
        for name in facts
    ]
    settings += [
        f"{name} = CASE WHEN {old} AND {new} THEN COALESCE(old.{name}, excluded.{name})"
        f" WHEN {old} THEN old.{name} WHEN {new} THEN excluded.{name}"
        f" ELSE COALESCE(excluded.{name}, old.{name}) END"
        for name in end
    ]
    names = columns(key, facts, end, fixed)
    values = ", ".join(f"${place}{'::jsonb' if name in _JSON else ''}" for place, name in enumerate(names, 1))
    return (
        f"INSERT INTO {table} AS old ({', '.join(names)}) VALUES ({values})"  # noqa: S608  # of this module's names
        f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(settings)}"
    )


def columns(key: Sequence[str], facts: Sequence[str], end: Sequence[str], fixed: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that :func:`upsert` writes, in the order of its parameters."""
    return (*key, *fixed, *facts, *end)
