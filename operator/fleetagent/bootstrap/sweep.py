"""`fleetagent sweep`: machines that carry our label, straight from the market, ledger or no ledger."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import httpx

from fleetagent.adapters.vast.client import VastMarkets
from fleetagent.adapters.vast.pacing import Pacer
from fleetagent.adapters.vast.search import SearchMemory
from fleetagent.agent.subject import label_prefix
from fleetagent.domain.fleet import Rented
from fleetagent.domain.labels import is_any_agents, is_ours
from fleetagent.domain.records import AgentKey
from fleetagent.errors import BadResource, CannotStart, TryLater
from fleetagent.ports import Market
from fleetagent.ports.world import DESTROYED_TOGETHER

IsMeant: TypeAlias = Callable[[str | None], bool]
"""Whether a label is of the machines that are to be found."""

MOST_LOOKS = 5
"""Lists lag behind, so one look after the destroy is not enough."""


async def sweep(args: argparse.Namespace) -> int:
    """Print them; with --destroy, end them and see that they are gone. 0 when none is left, 3 when some are."""
    is_meant = _whose(args)
    key = sys.stdin.read() if args.api_key_file == "-" else _read(args.api_key_file)
    async with httpx.AsyncClient(trust_env=False) as http:
        markets = VastMarkets(http, Pacer(), SearchMemory())
        try:
            market = markets.market(api_key=key.strip(), base_url=args.market_url, worker_url_env="FLEETAGENT_URL")
            ours = await _ours(market, is_meant)
            for machine in ours:
                sys.stdout.write(_line(machine) + "\n")
            if args.destroy and ours:
                ours = await _destroyed(market, is_meant, ours)
        except (TryLater, BadResource) as error:
            raise CannotStart(f"the market cannot be read: {error}") from error
    sys.stdout.write(f"{len(ours)} machines{' are left' if args.destroy else ''}\n")
    return 3 if ours else 0


async def _ours(market: Market, is_meant: IsMeant) -> list[Rented]:
    return [m for m in await market.machines() if is_meant(m.label)]


async def _destroyed(market: Market, is_meant: IsMeant, ours: list[Rented]) -> list[Rented]:
    """Ask for all, then look until the list is empty or the patience is at its end.

    Together at first; what is still there afterwards, or was not taken so, one by one.
    """
    for look in range(1, MOST_LOOKS + 1):
        ids = [m.provider_id for m in ours]
        for start in range(0, len(ids), DESTROYED_TOGETHER):
            some = ids[start : start + DESTROYED_TOGETHER]
            if look > 1 or len(some) == 1 or not await _destroy_together(market, some):
                await _destroy_each(market, some)
        if not (ours := await _ours(market, is_meant)):
            break
        await asyncio.sleep(look)
    return ours


async def _destroy_together(market: Market, ids: list[str]) -> bool:
    try:
        await market.destroy_together(ids)
    except TryLater as error:
        sys.stdout.write(f"{len(ids)} machines are asked for one by one: {error}\n")
        return False
    return True


async def _destroy_each(market: Market, ids: list[str]) -> None:
    for provider_id in ids:
        try:
            await market.destroy(provider_id)
        except TryLater as error:
            sys.stdout.write(f"{provider_id} is not destroyed yet: {error}\n")


def _whose(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> IsMeant:
    """Whose labels are meant. What ends machines of all agents must have been asked for in so many words."""
    if bool(args.name) != bool(args.namespace):
        raise CannotStart("--namespace and --name go together")
    if args.name:
        if args.all:
            raise CannotStart("--all and --name contradict each other")
        cluster = args.cluster or environ.get("FLEETAGENT_CLUSTER") or "default"
        return partial(is_ours, prefix=label_prefix(cluster, AgentKey(args.namespace, args.name)))
    if args.cluster:
        raise CannotStart("--cluster needs --namespace and --name: labels are hashes, a cluster alone finds nothing")
    if args.destroy and not args.all:
        raise CannotStart("--destroy needs --namespace and --name, or --all for every agent of every cluster")
    return is_any_agents


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise CannotStart(f"--api-key-file: {error}") from error


def _line(machine: Rented) -> str:
    price = f"{machine.usd_per_hour:.3f} USD/h" if machine.usd_per_hour is not None else "price unknown"
    return (
        f"{machine.provider_id}  {machine.status:<8}  {machine.num_gpus}x {machine.gpu_name}  {price}  {machine.label}"
    )
