"""Whether the operator has heard what a person said by annotation."""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from fleetagent.domain.schedule import Trigger

# What waits has the value in its trigger, by an index; what was served has it in the agent's row.
_HEARD = sa.text("""
    SELECT a.handled ->> :name = :value OR EXISTS (
        SELECT FROM triggers
        WHERE agent_id = a.id AND state = 'pending' AND kind = :kind AND value = :name || ':' || :value
    ) FROM agents a WHERE a.id = :agent
""").bindparams(*(sa.bindparam(name, type_=sa.Text) for name in ("name", "value", "kind")))


async def heard(connection: AsyncConnection, agent_id: int, name: str, value: str) -> bool:
    """See `ports.Reading.heard`."""
    asked = {"agent": agent_id, "name": name, "value": value, "kind": Trigger.FEEDBACK.value}
    return bool(await connection.scalar(_HEARD, asked))
