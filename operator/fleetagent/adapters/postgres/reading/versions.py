"""Whether something that is shown of an agent has changed: asked every other second while somebody watches."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.domain.records import AgentKey

# Of long tables the newest row alone, of the others what waits, is open or lives: each by an index, few rows a piece.
_VERSIONS = sa.text("""
    SELECT a.namespace, a.name, md5(concat_ws('|',
        a.uid, a.deleted_at, a.last_run_id, a.next_scheduled_at, s.id, s.last_seq, s.compactions, s.context_tokens,
        s.next_prompt_tokens,
        (SELECT concat_ws(' ', run_id, state, outcome, model_calls, tokens_in, tokens_out)
            FROM runs WHERE agent_id = a.id ORDER BY run_id DESC LIMIT 1),
        (SELECT at FROM samples WHERE agent_id = a.id ORDER BY at DESC LIMIT 1),
        (SELECT concat_ws(' ', id, state, settled_at, executed_by_run)
            FROM actions WHERE agent_id = a.id ORDER BY id DESC LIMIT 1),
        (SELECT string_agg(concat_ws(' ', id, state, approved_at, expires_at <= clock_timestamp()), ',' ORDER BY id)
            FROM actions WHERE agent_id = a.id AND expires_at IS NOT NULL AND told_by_run IS NULL),
        (SELECT id FROM wakes WHERE agent_id = a.id ORDER BY id DESC LIMIT 1),
        (SELECT string_agg(concat_ws(' ', id, claimed_by_run), ',' ORDER BY id)
            FROM wakes WHERE agent_id = a.id AND state = 'pending'),
        (SELECT string_agg(concat_ws(' ', id, state, message), ',' ORDER BY id)
            FROM alerts WHERE agent_id = a.id AND state <> 'resolved'),
        (SELECT string_agg(concat_ws(' ', id, phase, market_status, measured_rate, usd_per_hour), ',' ORDER BY id)
            FROM instances WHERE agent_id = a.id AND phase NOT IN ('gone', 'failed')),
        (SELECT string_agg(concat_ws(' ', kind, usd, tokens), ',' ORDER BY kind)
            FROM spend WHERE agent_id = a.id AND day = CAST(timezone('UTC', clock_timestamp()) AS date))
    )) AS version
    FROM unnest(:namespaces, :names) AS asked (namespace, name)
    JOIN agents a ON a.cluster = :cluster AND a.namespace = asked.namespace AND a.name = asked.name
    LEFT JOIN sessions s ON s.id = a.session_id
""").bindparams(
    sa.bindparam("namespaces", type_=ARRAY(sa.Text)),
    sa.bindparam("names", type_=ARRAY(sa.Text)),
    sa.bindparam("cluster", type_=sa.Text),
)


async def versions_of(connection: AsyncConnection, cluster: str, keys: Sequence[AgentKey]) -> Mapping[AgentKey, str]:
    """See `ports.Reading.versions`."""
    named = {"namespaces": [key.namespace for key in keys], "names": [key.name for key in keys], "cluster": cluster}
    rows = (await connection.execute(_VERSIONS, named)).all()
    return {AgentKey(row.namespace, row.name): row.version for row in rows}
