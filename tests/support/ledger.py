"""Intents, and looks at a market, for tests of the ledger in Postgres."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from fleetagent.domain.fleet import Instance
from fleetagent.domain.records import Asked, LaunchIntent, Run
from fleetagent.domain.settle import Change
from support.stores import NOON, Process


def an_intent(number: int = 1, *, approved: int | None = None, **changes: Any) -> LaunchIntent:
    """The wish to rent one machine for 0.60 USD/h; its worker's secret is `token-<number>`."""
    usual = LaunchIntent(
        Asked("launch", f"1:1:r1_1_{number}", "model", {"offer_id": f"70{number:02}", "reason": "because"}, approved),
        label=f"fa/0123456789ab/intent{number:06}",
        machine_id=f"m{number}",
        gpu_name="RTX 5090",
        num_gpus=1,
        cpu_ram_gb=512.0,
        cpu_cores=64.0,
        usd_per_hour=Decimal("0.60"),
        expected_rate=95.0,
        min_rate=0,
        worker_token_hash=f"hash-{number}",
    )
    return replace(usual, **changes)


async def launched(process: Process, run: Run, number: int = 1, at: datetime = NOON, **changes: Any) -> Instance:
    """A machine that the market has named `900<number>` and no list has shown yet."""
    action = await process.ledger.intend_launch(run, an_intent(number, **changes), at)
    await process.ledger.launched(run.lease, action, f"900{number}")
    return next(i for i in await process.ledger.instances(run.agent_id) if i.provider_id == f"900{number}")


async def seen(process: Process, run: Run, instance: Instance, at: datetime, **changes: Any) -> None:
    """Settle a look that found this machine so."""
    await process.ledger.settle(run.lease, [Change(replace(instance, **changes))], at)
