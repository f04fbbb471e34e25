"""`fleetagent sim marketplace`: the command's arguments and what it runs."""

import argparse
import json
import sys
from pathlib import Path

from pydantic import ValidationError

from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.faults import Faults
from fleetagent.sim.marketplace.server import serve

DEFAULTS = MarketplaceConfig()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What a person can set; the defaults are those of `MarketplaceConfig`."""
    parser.add_argument(
        "--listen", type=_address, default=DEFAULTS.listen, metavar="HOST:PORT", help="port 0 takes a free one"
    )
    parser.add_argument("--seed", type=int, default=DEFAULTS.seed, help="same seed, same calls: same machines")
    parser.add_argument("--time-scale", type=_positive, default=DEFAULTS.time_scale, help="market seconds per second")
    parser.add_argument(
        "--api-key",
        type=_keys,
        default=",".join(DEFAULTS.api_keys),
        metavar="KEY[,KEY…]",
        help="each key is an account",
    )
    parser.add_argument("--same-account", action="store_true", help="all keys belong to one account")
    parser.add_argument(
        "--credit", type=float, default=DEFAULTS.credit_usd, metavar="USD", help="what each account starts with"
    )
    parser.add_argument(
        "--offers", type=int, default=DEFAULTS.offers, help="offers that pass the example filter at the start"
    )
    parser.add_argument("--reliable", action="store_true", help="no failures, no lost races, no API errors")
    parser.add_argument("--still", action="store_true", help="prices and offers do not move")
    parser.add_argument("--rate-limits", action="store_true", help="answer 429 to calls that come too often")
    parser.add_argument("--retry-after", action="store_true", help="say in a 429 when to come again")
    parser.add_argument("--searches-per-day", type=int, metavar="N", help="the daily search quota; without: none")
    parser.add_argument(
        "--worker-url-env",
        default=DEFAULTS.worker_url_env,
        metavar="NAME",
        help="makes a machine run the worker protocol",
    )
    parser.add_argument("--faults", type=Path, metavar="FILE.json", help="fault switches from the start")


def main(args: argparse.Namespace) -> int:
    """Serve until told to stop; 0 then, 1 with one line on standard error when it can't start."""
    try:
        faults = json.loads(args.faults.read_text()) if args.faults else {}
        Faults.model_validate(faults)
        serve(
            MarketplaceConfig(
                listen=args.listen,
                seed=args.seed,
                time_scale=args.time_scale,
                api_keys=args.api_key,
                same_account=args.same_account,
                credit_usd=args.credit,
                offers=args.offers,
                reliable=args.reliable,
                moving=not args.still,
                rate_limits=args.rate_limits,
                retry_after=args.retry_after,
                searches_per_day=args.searches_per_day,
                worker_url_env=args.worker_url_env,
                faults=faults,
            )
        )
    except (OSError, ValidationError, json.JSONDecodeError) as error:
        sys.stderr.write(f"marketplace: {' '.join(str(error).split())}\n")
        return 1
    return 0


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError("expected HOST:PORT")
    return text


def _keys(text: str) -> tuple[str, ...]:
    keys = tuple(filter(None, text.split(",")))
    if not keys:
        raise argparse.ArgumentTypeError("expected at least one key")
    return keys


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be a positive number")
    return number
