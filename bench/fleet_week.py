"""A week of one FleetAgent in virtual time, for several seeds, beside a plain rule and an oracle on each market."""

import logging
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bench.fleet_peers import oracle, plain_rule, plan_by_exact
from bench.fleet_truth import HOUR_S, Watch, Week, figures
from bench.world import say

from fleetagent.adapters.postgres.migrate import migrate_to_head
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.domain.resource import FleetAgentSpec
from fleetagent.sim.marketplace.clock import Clock
from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.market import Market
from support import virtual_time
from support.fleets import facts
from support.manifests import a_parsed_spec, merged
from support.virtual_time import VirtualLoop
from support.virtual_world import CREDIT_USD, World, a_database, a_world

WEEK_HOURS = 168.0
SEEDS = tuple(range(1, 11))
LOOK_SECONDS = 300.0
"""By default it is 30 s; here each run looks, and hardly anything else does, so that a week takes a minute or two."""

SPEC: Mapping[str, Any] = {
    "target": {"proofsPerHour": 500, "tolerancePercent": 3},
    "budget": {"fleetUsdPerHour": "4.00", "fleetUsdPerDay": "96.00", "usdPerProof": "0.008"},
    "fleet": {"vast": {"offers": {"gpuNames": ["RTX 5090", "RTX 4090"], "maxUsdPerHour": "0.90"}}},
}
"""The example of the docs."""


AT_ONCE: Mapping[str, Any] = {"limits": {"launchesPerRun": 100, "launchesPerHour": 1000}}
"""So that one plan holds the whole fleet."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What the same market gave to others."""

    plain: Week
    oracle: Week
    plan_by_exact: float


@dataclass(frozen=True, slots=True)
class Lived:
    """One seed: what happened to each of the three, and what the agent's own tables say."""

    seed: int
    ours: Week
    beside: Beside
    projected_on_target: float
    """Share of the agent's own looks that projected the target."""
    runs: int
    runs_asked: int
    tokens: int
    refusals: Mapping[str, int]
    ended: Mapping[str, int]
    """Machines that ended, by why."""
    strays: int
    """Machines of the market that the ledger does not know, or the other way round, at the end."""


def live(seed: int, database_url: str, hours: float = WEEK_HOURS) -> Lived:
    """All three on the market of this seed."""
    spec = a_parsed_spec(**SPEC)
    config: dict[str, Any] = {"seed": seed, "credit_usd": CREDIT_USD}
    at_start = Market(MarketplaceConfig(**config), Clock())
    floor, by_exact = oracle(at_start, spec, hours), plan_by_exact(at_start, facts(spec=merged(SPEC, AT_ONCE)))
    plain = virtual_time.run(lambda loop: plain_rule(loop, config, spec, hours))

    async def ours(loop: VirtualLoop) -> Lived:
        async with a_world(loop, database_url, spec=SPEC, market=config, look_seconds=LOOK_SECONDS) as world:
            watch = Watch(world.market)
            world.built.triggers.look(world.body)
            await watch.go_on(hours * HOUR_S)
            return await _lived(seed, world, watch, spec, Beside(plain, floor, by_exact))

    return virtual_time.run(ours)


async def _lived(seed: int, world: World, watch: Watch, spec: FleetAgentSpec, beside: Beside) -> Lived:
    target = float(spec.target.proofs_per_hour)
    hold_from = target * (1 - float(spec.target.tolerance_percent) / 100)
    samples = await world.rows(SAMPLES)
    (runs,) = await world.rows("SELECT count(*) AS n, count(*) FILTER (WHERE model_calls > 0) AS asked FROM runs")
    refusals = await world.rows(REFUSALS)
    ended = await world.rows(ENDED)
    (tokens,) = await world.rows("SELECT coalesce(sum(tokens), 0)::int AS n FROM spend WHERE kind = 'model'")
    known = await world.rows("SELECT provider_id FROM instances WHERE phase NOT IN ('gone', 'failed')")
    strays = {str(m.id) for m in world.market.live()} ^ {row["provider_id"] for row in known}
    return Lived(
        seed=seed,
        ours=figures(watch, target=target, hold_from=hold_from),
        beside=beside,
        projected_on_target=fmean(row["p"] >= hold_from for row in samples),
        runs=runs["n"],
        runs_asked=runs["asked"],
        tokens=tokens["n"],
        refusals={row["code"]: row["n"] for row in refusals},
        ended={row["why"]: row["n"] for row in ended},
        strays=len(strays),
    )


SAMPLES = "SELECT projected_proofs_per_hour AS p FROM samples ORDER BY at"
REFUSALS = "SELECT refusal->>'code' AS code, count(*) AS n FROM actions WHERE state = 'refused' GROUP BY 1"
ENDED = """\
SELECT regexp_replace(left(coalesce(failure, 'stopped by the agent'), 60), '[0-9][0-9./]*', '…', 'g') AS why,
       count(*) AS n
  FROM instances WHERE phase IN ('gone', 'failed', 'stopping') GROUP BY 1"""


def lived_by(seeds: Sequence[int], hours: float = WEEK_HOURS) -> list[Lived]:
    """All seeds, as many at once as there are cores."""
    spawn = multiprocessing.get_context("spawn")
    with EmbeddedPostgres.start() as postgres, spawn.Pool(len(os.sched_getaffinity(0)), maxtasksperchild=1) as pool:
        urls = [a_database(postgres, f"week_{seed}") for seed in seeds]
        for url in urls:
            migrate_to_head(url)
        lived = []
        work = [(seed, url, hours) for seed, url in zip(seeds, urls, strict=True)]
        for each in pool.imap(_in_a_process, work, chunksize=1):
            said = f"on target {each.ours.on_target:.1%}, {each.ours.usd:.0f} USD"
            say(f"fleet: seed {each.seed}: {said}; refused {each.refusals}, ended {each.ended}")
            lived.append(each)
    return lived


def _in_a_process(work: tuple[int, str, float]) -> Lived:
    logging.getLogger("fleetagent").setLevel(logging.ERROR)  # mishaps of the market are part of the figures
    return live(*work)


def rows(lived: Sequence[Lived]) -> list[list[str]]:
    """A figure a row: ours, the plain rule's and the oracle's; mean, then least and most over the seeds."""
    sides = [e.ours for e in lived], [e.beside.plain for e in lived], [e.beside.oracle for e in lived]
    weeks = [[name, *(_of([show(w) for w in side], form) for side in sides)] for name, show, form in FIGURES]
    return [
        *weeks,
        ["a whole plan's USD/h ÷ the least possible", _of([e.beside.plan_by_exact for e in lived], "{:.3f}"), "", "1"],
        ["share of time on target, projected", _of([each.projected_on_target for each in lived], "{:.1%}"), "", ""],
        ["runs of 2,016 that asked the model", _of([each.runs_asked for each in lived], "{:,.0f}"), "", ""],
        ["model tokens a day", _of([each.tokens / 7 for each in lived], "{:,.0f}"), "", ""],
        ["machines that ledger and market do not both know, at the end", str(sum(e.strays for e in lived)), "", ""],
    ]


FIGURES: tuple[tuple[str, Callable[[Week], float], str], ...] = (
    ("share of time on target", lambda w: w.on_target, "{:.1%}"),
    ("the same, since it was reached", lambda w: w.on_target_since_reached, "{:.1%}"),
    ("hours from nothing to target", lambda w: w.hours_to_target, "{:.1f}"),
    ("USD per proof", lambda w: w.usd_per_proof, "{:.5f}"),
    ("USD in the week", lambda w: w.usd, "{:.0f}"),
    ("launches a day", lambda w: w.launches_a_day, "{:.1f}"),
    ("ends a day", lambda w: w.ends_a_day, "{:.1f}"),
    ("proofs/h above target, mean", lambda w: w.over_mean, "{:.0f}"),
    ("proofs/h above target, 95 in 100", lambda w: w.over_p95, "{:.0f}"),
    ("machine-hours paid without proofs", lambda w: w.idle_hours, "{:.1f}"),
    ("USD for machines that never proved", lambda w: w.usd_wasted, "{:.2f}"),
)


def _of(values: Sequence[float], form: str) -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return form.format(fmean(values)) + (f" ({low} to {high})" if low != high else "")
