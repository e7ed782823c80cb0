"""History in PostgreSQL: the rows of runs and phases are merged, listed and pruned (spec §8)."""

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from magos.api.names import JobType
from magos.api.workspace import RunRecord
from magos.history import merging
from magos.history.archive import log_key
from magos.history.cursor import Cursor, cursor_behind, parse_cursor
from magos.history.database import Database
from magos.history.model import PhaseRecord, WorkspaceKey
from magos.history.rows import phase_row, run_of, run_row, storable
from magos.history.runs import Prunable, Run, RunPage
from magos.history.settings import PostgresSettings

if TYPE_CHECKING:
    from asyncpg import Record

    from magos.history.database import Session

LARGEST_PAGE: Final = 100

_RUN: Final = (merging.RUN_KEY, merging.RUN_FACTS, merging.RUN_END, merging.RUN_FIXED)
_PHASE: Final = (merging.PHASE_KEY, merging.PHASE_FACTS, merging.PHASE_END, merging.PHASE_FIXED)

# The update changes nothing, as names do not change. It locks the row, so that a pass of retention does not delete the
# Workspace while a run of it arrives.
_KNOW_WORKSPACE: Final = """
INSERT INTO workspaces (ws_uid, namespace, name) VALUES ($1, $2, $3)
ON CONFLICT (ws_uid) DO UPDATE SET name = excluded.name WHERE false
"""

# The one that bears the name now has not been deleted; if it is not known yet that an earlier one was, the newest run
# tells them apart.
_BEARER: Final = """
SELECT ws_uid FROM workspaces AS w WHERE namespace = $1 AND name = $2
ORDER BY deleted_at IS NULL DESC,
         (SELECT max(ordered_at) FROM runs WHERE runs.ws_uid = w.ws_uid) DESC NULLS LAST,
         deleted_at DESC, ws_uid
LIMIT 1
"""

_PAGE: Final = """
SELECT * FROM runs
WHERE ws_uid = $1 AND namespace = $2 AND workspace = $3
  AND ($4::timestamptz IS NULL OR (ordered_at, run_id) < ($4::timestamptz, $5::text))
ORDER BY ordered_at DESC, run_id DESC LIMIT $6
"""

_ONE: Final = "SELECT * FROM runs WHERE ws_uid = $1 AND namespace = $2 AND workspace = $3 AND run_id = $4"

_PHASES: Final = "SELECT * FROM run_phases WHERE ws_uid = $1 AND run_id = ANY($2::text[])"

# A UID that exists is not deleted, whatever was noted: a list may have been read just before the Workspace came.
_REVIVE: Final = "UPDATE workspaces SET deleted_at = NULL WHERE deleted_at IS NOT NULL AND ws_uid = ANY($1::text[])"
_MARK: Final = """
UPDATE workspaces AS w SET deleted_at = $2
WHERE deleted_at IS NULL AND NOT EXISTS (SELECT FROM unnest($1::text[]) AS e (ws_uid) WHERE e.ws_uid = w.ws_uid)
"""

# "lone" are phases whose run was never stored, because the queue gave it up. They go as their run would have gone.
_PRUNABLE: Final = f"""
WITH known AS (
    SELECT ws_uid, run_id, ordered_at, {merging.ended("runs")} AS ended, false AS lone FROM runs
    UNION ALL
    SELECT ws_uid, run_id, min(COALESCE(started_at, minted_at)), false, true FROM run_phases AS p
    WHERE NOT EXISTS (SELECT FROM runs AS r WHERE r.ws_uid = p.ws_uid AND r.run_id = p.run_id)
    GROUP BY ws_uid, run_id
), counted AS (
    SELECT known.*, count(*) FILTER (WHERE ended) OVER newest_first AS ended_since FROM known
    WINDOW newest_first AS (PARTITION BY ws_uid ORDER BY ordered_at DESC, run_id DESC ROWS UNBOUNDED PRECEDING)
)
SELECT c.ws_uid, c.run_id, w.namespace, w.name, ARRAY(
    SELECT p.log_key FROM run_phases AS p WHERE p.ws_uid = c.ws_uid AND p.run_id = c.run_id AND p.log_key IS NOT NULL
) AS log_keys
FROM counted AS c JOIN workspaces AS w USING (ws_uid)
WHERE w.deleted_at < $2 OR (c.ended AND c.ended_since > $1) OR (c.lone AND c.ended_since >= $1)
ORDER BY c.ordered_at, c.ws_uid, c.run_id LIMIT $3
"""  # noqa: S608  # made of constants

_LOCK_WORKSPACES: Final = "SELECT FROM workspaces WHERE ws_uid = ANY($1::text[]) ORDER BY ws_uid FOR UPDATE"
_PRUNE_PHASES: Final = """
DELETE FROM run_phases USING unnest($1::text[], $2::text[]) AS gone (ws_uid, run_id)
WHERE run_phases.ws_uid = gone.ws_uid AND run_phases.run_id = gone.run_id
"""
_PRUNE_RUNS: Final = """
DELETE FROM runs USING unnest($1::text[], $2::text[]) AS gone (ws_uid, run_id)
WHERE runs.ws_uid = gone.ws_uid AND runs.run_id = gone.run_id
"""
_PRUNE_WORKSPACES: Final = """
DELETE FROM workspaces AS w WHERE ws_uid = ANY($1::text[]) AND deleted_at IS NOT NULL
  AND NOT EXISTS (SELECT FROM runs WHERE runs.ws_uid = w.ws_uid)
  AND NOT EXISTS (SELECT FROM run_phases WHERE run_phases.ws_uid = w.ws_uid)
"""


class PostgresHistory:
    """``HistoryWriter`` and ``HistoryReader`` on a PostgreSQL database; it connects at the first call.

    Every call takes ``timeout`` seconds at most; the first one may take a minute more, for the tables.
    """

    def __init__(self, settings: PostgresSettings, *, timeout: float = 10.0) -> None:
        self._database = Database(settings, timeout=timeout)

    async def aclose(self) -> None:
        """Close all connections. A later call makes new ones."""
        await self._database.aclose()

    async def record_run(self, workspace: WorkspaceKey, record: RunRecord) -> None:
        """Store the row of a run; see ``merging`` for what wins."""
        await self._merge(workspace, merging.upsert("runs", *_RUN), _in_order(run_row(workspace, record), _RUN))

    async def record_phase(self, workspace: WorkspaceKey, record: PhaseRecord) -> None:
        """Store the row of a phase; see ``merging`` for what wins. Its run may be stored later."""
        row = _in_order(phase_row(workspace, record), _PHASE)
        await self._merge(workspace, merging.upsert("run_phases", *_PHASE), row)

    async def mark_deleted(self, existing: Collection[str], now: datetime) -> None:
        """Note ``now`` as the time of deletion of every Workspace that is not in ``existing`` and has none yet."""
        uids = [storable(uid) for uid in existing]

        async def work(session: "Session") -> None:
            await session.execute(_REVIVE, uids)
            await session.execute(_MARK, uids, now)

        await self._database.write(work)

    async def prunable(self, keep: int, deleted_before: datetime, limit: int) -> tuple[Prunable, ...]:
        """Return runs that retention no longer keeps, oldest first, with the keys that their logs have or would have.

        Phases whose run was never stored count as well, as soon as ``keep`` finished runs are newer.
        """
        rows = await self._database.read(lambda session: session.fetch(_PRUNABLE, keep, deleted_before, limit))
        return tuple(
            Prunable(workspace_uid=row["ws_uid"], run_id=row["run_id"], log_keys=_log_keys(row)) for row in rows
        )

    async def prune(self, runs: Collection[Prunable]) -> None:
        """Delete the rows of these runs, and a deleted Workspace of which nothing is left."""
        pairs = [storable(run.workspace_uid) for run in runs], [storable(run.run_id) for run in runs]

        async def work(session: "Session") -> None:
            await session.execute(_LOCK_WORKSPACES, pairs[0])
            await session.execute(_PRUNE_PHASES, *pairs)
            await session.execute(_PRUNE_RUNS, *pairs)
            await session.execute(_PRUNE_WORKSPACES, pairs[0])

        await self._database.write(work)

    async def runs(self, namespace: str, name: str, *, uid: str = "", limit: int = 20, cursor: str = "") -> RunPage:
        """Return runs of a Workspace, newest first, at most ``limit`` and never more than 100."""
        behind = parse_cursor(cursor) if cursor else None
        if behind is not None and uid and uid != behind.uid:
            raise ValueError(f"the cursor belongs to another Workspace than the one with the UID {uid[:40]!r}")
        size = max(1, min(limit, LARGEST_PAGE))
        names = storable(namespace), storable(name)

        async def work(session: "Session") -> RunPage:
            owner = storable(uid) or (behind.uid if behind else await session.fetchval(_BEARER, *names))
            if owner is None:
                return RunPage(items=())
            return await _page(session, (owner, *names), size, behind)

        return await self._database.read(work)

    async def run(self, namespace: str, name: str, run_id: str, *, uid: str = "") -> Run | None:
        """Return one run of a Workspace, or None if history does not have it."""
        names = storable(namespace), storable(name)

        async def work(session: "Session") -> Run | None:
            owner = storable(uid) or await session.fetchval(_BEARER, *names)
            row = await session.fetchrow(_ONE, owner, *names, storable(run_id))
            if row is None:
                return None
            return _run_of(row, await session.fetch(_PHASES, owner, [row["run_id"]]))

        return await self._database.read(work)

    async def _merge(self, workspace: WorkspaceKey, statement: str, row: list[Any]) -> None:
        names = [storable(text) for text in (workspace.uid, workspace.namespace, workspace.name)]

        async def work(session: "Session") -> None:
            await session.execute(_KNOW_WORKSPACE, *names)
            await session.execute(statement, *row)

        await self._database.write(work)


async def _page(session: "Session", owner: tuple[str, str, str], size: int, behind: Cursor | None) -> RunPage:
    after = (None, None) if behind is None else (behind.ordered_at, behind.run_id)
    rows = await session.fetch(_PAGE, *owner, *after, size + 1)
    shown = rows[:size]
    phases = await session.fetch(_PHASES, owner[0], [row["run_id"] for row in shown])
    items = tuple(_run_of(row, phases) for row in shown)
    more = len(rows) > size
    return RunPage(
        items=items,
        next_cursor=cursor_behind(owner[0], shown[-1]["ordered_at"], shown[-1]["run_id"]) if more else "",
    )


def _run_of(row: "Record", phases: "list[Record]") -> Run:
    return run_of(dict(row), [dict(each) for each in phases if each["run_id"] == row["run_id"]])


def _in_order(row: dict[str, Any], parts: tuple[tuple[str, ...], ...]) -> list[Any]:
    return [row[name] for name in merging.columns(*parts)]


def _log_keys(row: Any) -> tuple[str, ...]:
    """Return every key under which the run may have a log: a process may have died between log and row."""
    usual = {log_key(row["namespace"], row["name"], row["run_id"], phase) for phase in JobType}
    return tuple(sorted(usual | set(row["log_keys"])))
