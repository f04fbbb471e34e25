"""`make bench`: measure the figures and write bench/results.md. Let the machine be quiet meanwhile."""

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench import (
    api,
    conversation,
    fleet,
    history,
    latency,
    memory,
    page,
    real_model,
    soak,
    start,
    thousand,
    watchers,
    web_page,
)
from bench.machine import machine_line
from bench.page import Parts, Table
from bench.world import say

LATENCY, START, MEMORY = "Annotate to model request", "Own start", "Idle operator"
THOUSAND, SOAK = "A thousand agents", "A soak with blows"
HISTORY, CONVERSATION = "History beside its peers", "A conversation of months"
REAL_MODEL, FLEET = "A real model server", "Acting on a fleet"
API = "The API beside an operator at work"
PAGE, WATCHERS = "The agent's page", "Fifty browsers"


NAMES = (
    "latency",
    "thousand",
    "soak",
    "start",
    "memory",
    "history",
    "conversation",
    "real-model",
    "fleet",
    "api",
    "page",
    "watchers",
)


def main() -> int:
    """Measure all figures, or those that are named."""
    args = _arguments()
    figures = _figures(args)
    for name in args.only or figures:
        heading, measure = figures[name]
        under = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {machine_line()}."  # noqa: TID251  # when it was measured
        text = f"{under}\n\n{measure().markdown()}"
        say(f"\n## {heading}\n\n{text}\n")
        page.write({heading: text}, args.out)
    say(f"written to {args.out.name}")
    return 0


def _figures(args: argparse.Namespace) -> dict[str, tuple[str, Callable[[], Table | Parts]]]:
    return {
        "latency": (LATENCY, partial(latency.measure, args.samples, args.agents)),
        "thousand": (THOUSAND, partial(thousand.measure, args.many, args.at_once)),
        "soak": (SOAK, partial(soak.measure, args.soak_figures)),
        "start": (START, start.measure),
        "memory": (MEMORY, memory.measure),
        "history": (HISTORY, history.measure),
        "conversation": (CONVERSATION, conversation.measure),
        "real-model": (REAL_MODEL, real_model.measure),
        "fleet": (FLEET, fleet.measure),
        "api": (API, partial(api.measure, args.api_seconds)),
        "page": (PAGE, partial(web_page.measure, args.pages, args.page_seconds)),
        "watchers": (WATCHERS, partial(watchers.measure, args.page_seconds, args.watched)),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES, help="may be repeated")
    parser.add_argument("--samples", type=int, default=120, help="latency: of each operator (default: %(default)s)")
    parser.add_argument("--agents", type=int, default=50, help="latency: FleetAgents present (default: %(default)s)")
    parser.add_argument("--many", type=int, default=1000, help="thousand: FleetAgents (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=100, help="thousand: runs at once (default: %(default)s)")
    parser.add_argument("--soak-figures", type=Path, help="soak: those of one that was played (dist/soak.json)")
    parser.add_argument("--api-seconds", type=float, default=60, help="api: of each past (default: %(default)s)")
    parser.add_argument("--pages", type=int, default=100, help="page: of each kind (default: %(default)s)")
    parser.add_argument("--watched", type=int, default=100, help="watchers: FleetAgents (default: %(default)s)")
    parser.add_argument(
        "--page-seconds", type=float, default=120, help="page, watchers: of each time (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=page.RESULTS, help="the file to write (default: bench/results.md)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
