"""The fleet follows the work in Curio's own tables: none, some, nobody knows, known again."""

from collections.abc import Iterator
from typing import Any

import pytest

from fleetagent.dev.postgres import EmbeddedPostgres
from support.curio import PASSWORD, CurioDatabase, a_curio_database
from support.manifests import ABSENT
from support.slips import a_secret
from support.stage import Stage

DEMAND = {"static": ABSENT, "curio": {"dsnSecretRef": {"name": "curio-db", "key": "dsn"}}}


@pytest.fixture
def curio(postgres_server: EmbeddedPostgres) -> Iterator[CurioDatabase]:
    with a_curio_database(postgres_server) as database:
        yield database


def known(stage: Stage) -> tuple[Any, Any]:
    """Status and reason of DemandKnown."""
    condition = stage.condition("DemandKnown")
    return condition.get("status"), condition.get("reason")


def test_a_fleet_comes_with_curio_s_work_and_stays_while_curio_cannot_be_read(
    stage: Stage, curio: CurioDatabase
) -> None:
    a_secret(stage, "curio-db", {"dsn": curio.dsn})
    stage.start_operator()
    stage.apply(spec={"demand": DEMAND})
    stage.wait_for(lambda: known(stage) == ("True", "Inactive"), "empty tables are no demand")
    assert stage.market.live() == []

    curio.add("harmony_task", {"name": "PoRep"})
    stage.wait_for(lambda: known(stage) == ("True", "Active"), "a task waits")
    stage.wait_for_target()
    fleet = stage.market.live()
    assert fleet

    curio.do(f"REVOKE ALL ON curio.harmony_task FROM {curio.reader}")
    stage.wait_for(lambda: known(stage) == ("False", "CurioForbidden"), "the tables cannot be read")
    curio.do("DELETE FROM curio.harmony_task")
    runs = len(stage.runs())
    stage.annotate(requested_at="now")
    stage.wait_for_runs(runs + 1)
    assert [m["id"] for m in stage.market.live()] == [m["id"] for m in fleet]

    curio.do(f"GRANT SELECT ON curio.harmony_task TO {curio.reader}")
    stage.wait_for(lambda: known(stage) == ("True", "Inactive"), "the tables are read again")
    assert PASSWORD not in stage.log()
    stage.wait_for_books()
