"""The floor for Python: what the least kopf operator needs from a changed annotation to an HTTP POST.

SINK is the URL that is told. Started by `kopf run --standalone -n NAMESPACE`.
"""

import os
from typing import Any

import aiohttp
import kopf

REQUESTED_AT = ("metadata", "annotations", "fleetagent.dev/requested-at")


@kopf.on.startup()
async def open_client(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """One connection pool, as a real operator has; no Events, which only cost."""
    settings.posting.enabled = False
    settings.scanning.disabled = True  # the account may read its namespace, not the list of all
    memo.client = aiohttp.ClientSession()


@kopf.on.cleanup()
async def close_client(memo: kopf.Memo, **_: Any) -> None:
    """Give the pool back."""
    await memo.client.close()


@kopf.on.field("fleetagent.dev", "v1alpha1", "fleetagents", field=REQUESTED_AT)
async def asked(new: Any, memo: Any, **_: Any) -> None:
    """Tell the sink."""
    if new:
        async with memo.client.post(os.environ["SINK"], data=new):
            pass
