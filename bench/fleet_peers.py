"""What the agent's week is held against: an oracle, and a plain rule, both on the very same market."""

import asyncio
import contextlib
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx
from bench.fleet_truth import HOUR_S, Watch, Week, figures, proves

from fleetagent.adapters.vast.parse import offer_in
from fleetagent.domain.capacity import offer_rate, usd_per_proof
from fleetagent.domain.facts import Facts
from fleetagent.domain.fleet import Offer
from fleetagent.domain.money import min_rate
from fleetagent.domain.offers import why_not
from fleetagent.domain.plan import ARRIVES, plan_of
from fleetagent.domain.resource import FleetAgentSpec
from fleetagent.sim.marketplace.clock import Clock
from fleetagent.sim.marketplace.config import MarketplaceConfig
from fleetagent.sim.marketplace.crew import Crew
from fleetagent.sim.marketplace.errors import Refused
from fleetagent.sim.marketplace.fate import decide
from fleetagent.sim.marketplace.machines import Machine
from fleetagent.sim.marketplace.market import FIRST_CONTRACT, Market
from support.virtual_time import VirtualLoop

EVERY_S = 300.0
STEPS_PER_PROOF = 10
"""The oracle's arithmetic is in tenths of proofs per hour."""


def offers_of(market: Market, spec: FleetAgentSpec) -> list[Offer]:
    """What the agent's filter lets pass now, read as the agent reads it."""
    vast = spec.fleet.vast
    found: dict[str, Offer] = {}
    for gpu in vast.offers.gpu_names:  # 64 rows at most for each question
        query = {"gpu_name": {"in": [gpu]}, "allocated_storage": vast.instance.disk_gb, "order": [["dph_total", "asc"]]}
        rows = market.search({"type": "on-demand", "limit": 64, "rentable": {"eq": True}, **query})
        offers = (offer_in(row, vast.instance.disk_gb) for row in rows)
        found |= {o.offer_id: o for o in offers if o and why_not(o, vast.offers, vast.instance.disk_gb) is None}
    return list(found.values())


def oracle(market: Market, spec: FleetAgentSpec, hours: float) -> Week:
    """Knows each machine's true rate, rents the cheapest sufficient set at once, and never loses one.

    The set of least cost is exact; with what is offered at the start, as that is when it rents.
    """
    target = float(spec.target.proofs_per_hour)
    choices = []
    for offer in offers_of(market, spec):
        host = market.supply.by_ask(int(offer.offer_id))
        if host is not None:
            fate = decide(market.draws, host, FIRST_CONTRACT, image_gb=market.config.image_gb, reliable=True)
            ready_s = fate.provisioning_s + fate.loading_s + fate.parameters_s + fate.benchmark_s
            choices.append((fate.rate, float(offer.usd_per_hour), ready_s / HOUR_S))
    chosen = _cheapest_cover([(rate, usd) for rate, usd, _ in choices], target)
    rate = sum(choices[n][0] for n in chosen)
    usd_per_hour = sum(choices[n][1] for n in chosen)
    ready_h = max(choices[n][2] for n in chosen)
    proofs = sum(choices[n][0] * (hours - choices[n][2]) for n in chosen)
    return Week(
        on_target=1 - ready_h / hours,
        on_target_since_reached=1.0,
        hours_to_target=ready_h,
        usd=usd_per_hour * hours,
        usd_per_proof=usd_per_hour * hours / proofs,
        launches_a_day=len(chosen) * 24 / hours,
        ends_a_day=0.0,
        over_mean=rate - target,
        over_p95=rate - target,
        idle_hours=sum(choices[n][2] for n in chosen),
        usd_wasted=0.0,
    )


def _cheapest_cover(items: list[tuple[float, float]], target: float) -> list[int]:
    """Which items reach the target together for the least money: a knapsack, by dynamic programming."""
    size = math.ceil(target * STEPS_PER_PROOF)
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ()), *[(math.inf, ())] * size]
    for n, (rate, usd) in enumerate(items):
        step = int(rate * STEPS_PER_PROOF)
        for covered in range(size, 0, -1):
            cost, chosen = best[max(0, covered - step)]
            if cost + usd < best[covered][0]:
                best[covered] = (cost + usd, (*chosen, n))
    return list(best[size][1])


def plan_by_exact(market: Market, empty: Facts) -> float:
    """What a plan for an empty fleet costs, as a multiple of the least for the same expected rates and chances."""
    offers = offers_of(market, empty.spec)
    known = [(offer_rate(o) * ARRIVES, float(o.usd_per_hour)) for o in offers]
    least = sum(known[n][1] for n in _cheapest_cover(known, float(empty.spec.target.proofs_per_hour)))
    return sum(float(step.offer.usd_per_hour) for step in plan_of(empty, offers).launches) / least


@dataclass
class PlainRule:
    """One launch per run while what proves is below the target: what is on its way does not count.

    For all else it has what the agent has: the filter, the price per proof, the budget, the time limits, and it stops
    what is not needed. It remembers no hosts.
    """

    market: Market
    spec: FleetAgentSpec

    async def go_on(self, seconds: float) -> None:
        """A run every five minutes."""
        until = self.market.clock.market() + seconds
        while self.market.clock.market() < until:
            self._run()
            await asyncio.sleep(EVERY_S)

    def _run(self) -> None:
        now, account = self.market.clock.market(), self.market.accounts[0]
        for machine in self.market.live(account):
            if self._hopeless(machine, now):
                self.market.destroy(account, machine.id)
        live = self.market.live(account)
        rate = sum(m.fate.rate for m in live if proves(m, now))
        target, tolerance = float(self.spec.target.proofs_per_hour), float(self.spec.target.tolerance_percent)
        if rate < target * (1 - tolerance / 100):
            self._launch_one(live)
        else:
            spare = [m for m in live if not proves(m, now) or rate - m.fate.rate >= target]
            old = [m for m in spare if now - m.created_at >= self.spec.limits.min_instance_age.total_seconds()]
            if old:
                dearest = max(old, key=lambda m: (not proves(m, now), m.all_in_usd_per_hour / m.fate.rate))
                self.market.destroy(account, dearest.id)

    def _hopeless(self, machine: Machine, now: float) -> bool:
        """Longer on its way than a machine may be, stopped, or too slow."""
        limits, age_s = self.spec.fleet.timeouts, now - machine.created_at
        status = machine.status_at(now)
        if machine.worker.state == "too slow" or status in {"exited", "stopped"}:
            return True
        if machine.worker.state == "absent" or (status != "running" and machine.worker.state != "proving"):
            return age_s > limits.loading.total_seconds()
        longest = limits.loading + limits.registered + limits.benchmarking
        return machine.worker.state != "proving" and age_s > longest.total_seconds()

    def _launch_one(self, live: list[Machine]) -> None:
        """The cheapest proofs that fit the budget."""
        budget, template, config = self.spec.budget, self.spec.fleet.vast.instance, self.market.config
        usd_left = budget.fleet_usd_per_hour - sum((Decimal(str(m.all_in_usd_per_hour)) for m in live), Decimal(0))
        offers = sorted(offers_of(self.market, self.spec), key=lambda o: (usd_per_proof(o), o.offer_id))
        most = budget.usd_per_proof or Decimal("Infinity")
        offer = next((o for o in offers if o.usd_per_hour <= usd_left and usd_per_proof(o) <= most), None)
        if offer is None or len(live) >= self.spec.limits.max_instances:
            return
        least = min_rate(offer.usd_per_hour, budget.usd_per_proof, template.min_proofs_per_hour)
        env = {config.worker_url_env: f"http://workers.test/{least}", config.min_rate_env: str(least)}
        order = {"image": template.image, "disk": template.disk_gb, "env": env, "runtype": "args"}
        with contextlib.suppress(Refused):  # somebody was faster: the next run tries again
            self.market.create(self.market.accounts[0], int(offer.offer_id), order | {"cancel_unavail": True})


def _answer(request: httpx.Request) -> httpx.Response:
    """A worker endpoint: the minimum that a machine must reach stands in the URL that it was given."""
    rate, least = json.loads(request.content).get("rate", 0.0), float(request.url.path.split("/")[1])
    return httpx.Response(200, json={"uuid": "u", "ok": True, "passed": rate >= least})


async def plain_rule(loop: VirtualLoop, config: dict[str, Any], spec: FleetAgentSpec, hours: float) -> Week:
    """A week of the plain rule."""
    market = Market(MarketplaceConfig(**config), Clock(steady=loop.time, wall=loop.time))
    target = float(spec.target.proofs_per_hour)
    async with httpx.AsyncClient(transport=httpx.MockTransport(_answer)) as workers, Crew(market, workers):
        watch = Watch(market)
        await asyncio.gather(watch.go_on(hours * HOUR_S), PlainRule(market, spec).go_on(hours * HOUR_S))
        hold_from = target * (1 - float(spec.target.tolerance_percent) / 100)
        return figures(watch, target=target, hold_from=hold_from)
