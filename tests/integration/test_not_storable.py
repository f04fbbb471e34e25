"""A value that the database refuses is an error of ours, and says nothing of the values."""

import pytest
import sqlalchemy as sa

from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.tables import sessions
from fleetagent.errors import NotStorable


async def test_a_refused_value_is_named_by_no_error(database_url: str) -> None:
    engine = open_engine(database_url)
    try:
        with pytest.raises(NotStorable) as caught:
            async with Database(engine).transaction() as connection:
                await connection.execute(
                    sa.update(sessions).values(context_tokens=3_000_000_000, summary="what nobody else may read")
                )
    finally:
        await engine.dispose()

    assert "out of range" in str(caught.value)
    assert "nobody else may read" not in f"{caught.value!r} {caught.value.__cause__}"
