"""A past for tests of retention: rows that were written long ago, and what is left of them."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from fleetagent.adapters.postgres.audit import PostgresAudit
from fleetagent.adapters.postgres.tables import agents, metadata
from fleetagent.domain.records import Lease
from fleetagent.domain.retention import Past
from support.stores import NOON, Process

LONG_AGO = timedelta(days=10_000)
BEFORE = NOON - timedelta(days=1_000)
"""What is older than this goes; what `grow_old` has seen is older by far, what comes after it is not."""


async def grow_old(process: Process) -> None:
    """Whatever is stored now was written long ago."""
    async with process.database.transaction() as connection:
        for table in metadata.sorted_tables:
            times = [c for c in table.columns if isinstance(c.type, sa.DateTime)]
            if table is not agents and times:
                await connection.execute(sa.update(table).values({c: c - LONG_AGO for c in times}))


async def prune(process: Process, lease: Lease, *of: Past, before: datetime = BEFORE) -> dict[Past, list[int]]:
    """Everything too old, all of it or only what is named; how many rows each batch deleted."""
    audit, batches = PostgresAudit(process.database), dict[Past, list[int]]()
    for what in of or tuple(Past):
        place: tuple[Any, ...] | None = ()
        while place is not None:
            batch = await audit.prune(lease, what, before, place)
            batches.setdefault(what, []).append(batch.deleted)
            place = batch.after
    return batches


async def a_long_past(process: Process, agent_id: int, runs: int, apart: timedelta = timedelta(0)) -> None:
    """Quiet runs of long ago, each with four messages that left the prompt and with what called for it and came of it.

    One run in ten was refused something, rented a machine that is gone, asked for a wake, raised an alert, compacted.
    So much time lies between two runs, `apart`; without it, all happened at once.
    """
    async with process.database.transaction() as connection:
        await connection.execute(sa.text(_COUNTED_ONCE))
        given = {"agent": agent_id, "runs": runs, "at": NOON - LONG_AGO, "apart": apart}
        for statement in _PAST:
            await connection.execute(sa.text(f"WITH given AS ({_GIVEN}) {statement}"), given)
    async with process.database.statements() as connection:
        await connection.execute(sa.text("VACUUM ANALYZE"))


_COUNTED_ONCE = """
    DO $$ DECLARE its text; BEGIN
      FOR its IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = false)', its);
      END LOOP;
    END $$
"""
"""Plans follow from what is counted at the end, whenever the server would count again."""
_GIVEN = """
    SELECT a.id AS agent_id, a.session_id, a.last_run_id AS run, s.last_seq AS seq, CAST(:runs AS bigint) AS runs,
      CAST(:at AS timestamptz) AS at, CAST(:apart AS interval) AS apart
    FROM agents a JOIN sessions s ON s.id = a.session_id WHERE a.id = :agent
"""
_PAST = (
    """
    INSERT INTO runs (agent_id, run_id, session_id, state, outcome, quiet, lease_token, started_at, finished_at)
    SELECT agent_id, run + n, session_id, 'finished', 'Held', true, 0, at + n * apart, at + n * apart
    FROM given, generate_series(1, runs) AS n
    """,
    """
    INSERT INTO messages (session_id, seq, agent_id, run_id, at, kind, role, content, left_prompt_because)
    SELECT session_id, seq + n, agent_id, run + 1 + (n - 1) / 4, at + (n + 3) / 4 * apart, 'observation', 'user',
      'projected 485', 'quiet'
    FROM given, generate_series(1, runs * 4) AS n
    """,
    """
    INSERT INTO triggers (agent_id, kind, value, state, at, processed_at)
    SELECT agent_id, 'Schedule', n, 'processed', at, at FROM given, generate_series(1, runs) AS n
    """,
    """
    INSERT INTO samples SELECT agent_id, at + n * interval '1 s', 1, 0, 60, 60, 60, 1
    FROM given, generate_series(1, runs) AS n
    """,
    """
    INSERT INTO actions (agent_id, run_id, intent_key, kind, by, state, created_at)
    SELECT agent_id, run + n, agent_id || '/' || n, 'stop', 'model', 'refused', at + n * apart
    FROM given, generate_series(10, runs, 10) AS n
    """,
    """
    , done AS (
      INSERT INTO actions (agent_id, run_id, intent_key, kind, by, state, label, created_at)
      SELECT agent_id, run + n, agent_id || '/l/' || n, 'launch', 'model', 'done', agent_id || '/m/' || n,
        at + n * apart
      FROM given, generate_series(10, runs, 10) AS n RETURNING agent_id, id, label, created_at
    )
    INSERT INTO instances (agent_id, label, number, action_id, phase, phase_since, requested_at, machine_id, gpu_name,
      num_gpus, cpu_ram_gb, cpu_cores, usd_per_hour, expected_rate, billed_until, gone_at)
    SELECT agent_id, label, id, id, 'gone', created_at, created_at, 'm', 'RTX 5090',
      1, 1, 1, 1, 1, created_at, created_at
    FROM done
    """,
    """
    INSERT INTO alerts (agent_id, run_id, code, severity, message, state, created_at, told_at, resolved_at)
    SELECT agent_id, run + n, 'Code', 'warning', 'look', 'resolved', at + n * apart, at, at
    FROM given, generate_series(10, runs, 10) AS n
    """,
    """
    INSERT INTO wakes (agent_id, at, reason, state, asked_by_run, processed_at, created_at)
    SELECT agent_id, at, 'look', 'processed', run + n, at, at + n * apart FROM given, generate_series(10, runs, 10) AS n
    """,
    """
    INSERT INTO compactions (agent_id, session_id, run_id, method, tokens_before, tokens_after, at)
    SELECT agent_id, session_id, run + n, 'Summary', 9, 1, at FROM given, generate_series(10, runs, 10) AS n
    """,
    """
    , counted AS (
      UPDATE sessions s SET last_seq = last_seq + runs * 4 FROM given WHERE s.id = given.session_id
    )
    UPDATE agents SET last_run_id = last_run_id + runs FROM given WHERE id = given.agent_id
    """,
)
