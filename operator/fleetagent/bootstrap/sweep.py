"""`fleetagent sweep`: machines that carry our label, straight from the market, ledger or no ledger."""

import argparse
import sys
from pathlib import Path

import httpx

from fleetagent.adapters.vast.client import VastMarkets
from fleetagent.adapters.vast.pacing import Pacer
from fleetagent.adapters.vast.search import SearchMemory
from fleetagent.agent.subject import label_prefix
from fleetagent.domain.fleet import Rented
from fleetagent.domain.records import AgentKey
from fleetagent.errors import BadResource, CannotStart, TryLater


async def sweep(args: argparse.Namespace) -> int:
    """Print them; with --destroy, end them. 0 when none is left, 3 when some are."""
    prefix = _prefix(args)
    key = sys.stdin.read() if args.api_key_file == "-" else _read(args.api_key_file)
    async with httpx.AsyncClient(trust_env=False) as http:
        markets = VastMarkets(http, Pacer(), SearchMemory())
        try:
            market = markets.market(api_key=key.strip(), base_url=args.market_url, worker_url_env="FLEETAGENT_URL")
            ours = [m for m in await market.machines() if (m.label or "").startswith(prefix)]
            for machine in ours:
                sys.stdout.write(_line(machine) + "\n")
            if args.destroy:
                for machine in ours:
                    await market.destroy(machine.provider_id)
                    sys.stdout.write(f"destroyed {machine.provider_id}\n")
        except (TryLater, BadResource) as error:
            raise CannotStart(f"the market cannot be read: {error}") from error
    if not args.destroy:
        sys.stdout.write(f"{len(ours)} machines\n")
    return 3 if ours and not args.destroy else 0


def _prefix(args: argparse.Namespace) -> str:
    if bool(args.name) != bool(args.namespace):
        raise CannotStart("--namespace and --name go together")
    return label_prefix(args.cluster, AgentKey(args.namespace, args.name)) if args.name else "fa/"


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
