"""The world before a scene: made once, and the same each time."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from fleetagent.domain.capacity import usd_per_proof
from fleetagent.domain.resource import FleetAgent
from support.asking import spoken
from support.crash.scenes import DUE, LATER, Scene
from support.engine import StoredCluster, a_body, an_engine
from support.manifests import Json
from support.servers import Market, Model


@dataclass(frozen=True)
class Prepared:
    """A scene's world: the database to copy, and what the market calls the same machines each time."""

    scene: Scene
    template: str
    ids: dict[str, str]
    offers: list[str]


def prepared(scene: Scene, template: str, url: str, market: Market, model: Model) -> Prepared:
    """Adopt the machines while suspended, and date everything as if it had stood for hours."""
    ids = rented(scene, market)
    offers = asyncio.run(_adopted(scene, url, market, model))
    _execute(url, _machines_before(scene))
    if scene.waits and scene.rounds is not None:
        model.put("script", spoken(scene.rounds(ids, offers)))
        _execute(url, ["UPDATE agents SET spec_hash = NULL"])  # its first run: an overdue one would not start at once
        asyncio.run(_wished(scene, url, market, model))
    _execute(url, _calls_before(scene))
    return Prepared(scene, template, ids, offers)


def rented(scene: Scene, market: Market) -> dict[str, str]:
    """The scene's machines on this market, by their words."""
    return {machine.word: str(market.post("machines", machine.order)["id"]) for machine in scene.machines}


def _execute(url: str, statements: Iterable[str]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def _before(scene: Scene, market: Market, model: Model, **spec: Any) -> Json:
    """The resource before anybody said anything."""
    body = scene.body(a_body(market.base_url, model.url))
    body["metadata"] = {name: body["metadata"][name] for name in ("name", "namespace", "uid", "generation")}
    body["spec"] |= spec
    return body


async def _adopted(scene: Scene, url: str, market: Market, model: Model) -> list[str]:
    """The offers that the agent will be shown, the cheapest proofs first."""
    body = _before(scene, market, model, mode="Suspended")
    async with an_engine(url, StoredCluster(body), owner="before it") as engine:
        await engine.beat()
        agent = FleetAgent.stored(body)
        found = await (await engine.built.worlds.market(agent)).offers(
            agent.spec.fleet.vast.offers, agent.spec.fleet.vast.instance.disk_gb
        )
    return [offer.offer_id for offer in sorted(found, key=usd_per_proof)]


async def _wished(scene: Scene, url: str, market: Market, model: Model) -> None:
    """What waits for a person now."""
    async with an_engine(url, StoredCluster(_before(scene, market, model)), owner="before it") as engine:
        await engine.beat()
        waiting = engine.cluster.status.get("waitingActions") or []
        assert [action["id"] for action in waiting] == ["action-1"], engine.cluster.status


def _machines_before(scene: Scene) -> Iterator[str]:
    """They prove, or load, for long."""
    yield "UPDATE instances SET requested_at = now() - interval '3 h'"
    for machine in scene.machines:
        if machine.rate is not None:
            values = f"phase = 'proving', phase_since = now() - interval '2 h', measured_rate = {machine.rate}"
        else:
            values = f"phase = 'loading', phase_since = now() - interval '{machine.loading_minutes} min'"
        yield f"UPDATE instances SET {values} WHERE label = '{machine.label}'"  # noqa: S608


def _calls_before(scene: Scene) -> Iterator[str]:
    """A wake that is due, one that is not, an event; and nothing spent today."""
    yield "UPDATE instances SET billed_until = now()"
    yield "DELETE FROM triggers"
    yield "DELETE FROM spend"
    if scene.due == "Schedule":
        yield "UPDATE agents SET spec_hash = NULL"
    wake = "INSERT INTO wakes (agent_id, at, reason, state, asked_by_run) SELECT id, now()"
    yield f"{wake} - interval '1 min', '{DUE}', 'pending', 0 FROM agents"
    yield f"{wake} + interval '9 h', '{LATER}', 'pending', 0 FROM agents"
    yield (
        "INSERT INTO triggers (agent_id, kind, value, words, state, at) "
        "SELECT id, 'Event', 'before', 'machine 1 is back', 'pending', now() - interval '1 min' FROM agents"
    )
