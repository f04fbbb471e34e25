"""One action from wish to effect: fresh facts → guardrails → ledger → market → words.

In mode Approve what every other rule lets pass waits for a person, and `agent/approvals` goes on from there.
"""

import contextlib
from typing import Any

from fleetagent.agent.desk import FROM_STRANGERS, Desk
from fleetagent.agent.effects import MIN_RATE, Effect, Wanted
from fleetagent.domain.approval import Wish, how_to_decide
from fleetagent.domain.capacity import capacity, offer_rate
from fleetagent.domain.facts import Launch, Refusal, Stop
from fleetagent.domain.fleet import Fleet, Instance, Offer
from fleetagent.domain.guardrails import DRY_RUN, NEEDS_APPROVAL, check
from fleetagent.domain.model import JsonObject
from fleetagent.domain.money import min_rate
from fleetagent.domain.records import Asked, LaunchIntent
from fleetagent.domain.text import neutral
from fleetagent.errors import BadResource, TryLater
from fleetagent.ports import Market

NO_MARKET = Refusal("MarketUnavailable", "the market cannot be used now")


async def launch(desk: Desk, offer_id: str, reason: str, call_id: str, *, by: str) -> JsonObject:
    """Rent the machine of one offer. The answer says what happened, what waits, or which rule refused it."""
    args = {"offer_id": offer_id, "reason": reason}
    await desk.catch_up()
    shown = desk.market if offer_id in desk.offers_shown else None
    async with shown.buying() if shown is not None else contextlib.nullcontext():
        return await _launch(desk, offer_id, reason, Asked("launch", _intent_key(desk, call_id), by, args))


async def _launch(desk: Desk, offer_id: str, reason: str, asked: Asked) -> JsonObject:
    """Nobody else buys on this account while the offer is read, judged and rented."""
    disk_gb = desk.subject.spec.fleet.vast.instance.disk_gb
    shown = desk.offers_shown.get(offer_id)
    offer = await desk.market.offer(offer_id, disk_gb) if desk.market and shown else None
    facts = await desk.facts(offer, await desk.services.cluster.installation_stop())
    offer = facts.offer_now
    refusal = check(Launch(offer_id, reason, asked.by), facts)
    if offer is None or desk.market is None:
        return await _refused(desk, asked, refusal or NO_MARKET)
    if refusal is not None:
        return await _held_back(desk, asked, refusal, _wish_for(offer))
    try:
        effect = await rent(desk, desk.market, offer, asked)
    except BadResource as error:
        return await _refused(desk, asked, Refusal(error.reason, str(error)))
    return _result(effect, offer)


async def rent(desk: Desk, market: Market, offer: Offer, asked: Asked) -> Effect:
    """The guardrails have let it pass: rent it, and tell people. `BadResource` when its environment is not there."""
    env = await desk.services.worlds.instance_env(desk.subject.agent)
    effect = await desk.services.effects.launch(desk.run, market, _wanted(desk, offer, env, asked))
    reason = "Launched" if effect.happened else "LaunchUnclear" if effect.happened is None else "LaunchFailed"
    _count(desk, "launch", effect)
    await _tell(desk, reason, effect, offer)
    return effect


def _wanted(desk: Desk, offer: Offer, env: Any, asked: Asked) -> Wanted:
    spec = desk.subject.spec
    template = spec.fleet.vast.instance
    secret = desk.services.new_secret()
    floor = min_rate(offer.usd_per_hour, spec.budget.usd_per_proof, template.min_proofs_per_hour)
    intent = LaunchIntent(
        asked=asked,
        label=f"{desk.subject.label_prefix}{desk.services.new_secret().token[:12]}",
        machine_id=offer.machine_id,
        gpu_name=offer.gpu_name,
        num_gpus=offer.num_gpus,
        cpu_ram_gb=offer.cpu_ram_gb,
        cpu_cores=offer.cpu_cores,
        usd_per_hour=offer.usd_per_hour,
        expected_rate=offer_rate(offer),
        min_rate=floor,
        worker_token_hash=secret.hash,
    )
    own = {template.worker_url_env: f"{desk.services.worker_url}/workers/{secret.token}", MIN_RATE: str(floor)}
    return Wanted(intent, offer.offer_id, template.image, template.disk_gb, template.onstart, env={**env, **own})


async def stop(desk: Desk, instance_id: str, reason: str, call_id: str, *, by: str) -> JsonObject:
    """Destroy one machine of ours. The answer says what happened, what waits, or which rule refused it."""
    await desk.catch_up()
    facts = await desk.facts(None, await desk.services.cluster.installation_stop())
    instance = facts.fleet.named(instance_id) if isinstance(facts.fleet, Fleet) else None
    instance_id = instance.instance_id if instance is not None else instance_id  # whatever the model called it
    refusal = check(Stop(instance_id, reason, by), facts)
    asked = Asked("stop", _intent_key(desk, call_id), by, {"instance_id": instance_id, "reason": reason})
    if instance is None or desk.market is None:
        return await _refused(desk, asked, refusal or NO_MARKET)
    if refusal is not None:
        return await _held_back(desk, asked, refusal, _wish_against(instance))
    return _result(await destroy(desk, desk.market, instance, asked), None)


async def destroy(desk: Desk, market: Market, instance: Instance, asked: Asked) -> Effect:
    """The guardrails have let it pass: destroy it, and tell people."""
    effect = await desk.services.effects.stop(
        desk.run.lease,
        desk.run.run_id,
        market,
        instance,
        intent_key=asked.intent_key,
        by=asked.by,
        reason=str(asked.args.get("reason", "")),
    )
    _count(desk, "stop", effect)
    await _tell(desk, "Stopped" if effect.happened else "StopUnclear", effect, None)
    return effect


def _count(desk: Desk, kind: str, effect: Effect) -> None:
    acted, key = desk.services.meter.acted, desk.subject.key
    acted(key, kind, "done" if effect.happened else "unknown" if effect.happened is None else "failed")


def _intent_key(desk: Desk, call_id: str) -> str:
    return f"{desk.subject.record.id}:{desk.run.run_id}:{call_id}"


def _wish_for(offer: Offer) -> Wish:
    return Wish(f"{offer.num_gpus}x {neutral(offer.gpu_name, 40)}", offer.usd_per_hour, offer_rate(offer), offer)


def _wish_against(instance: Instance) -> Wish:
    what = f"{instance.instance_id}, {instance.num_gpus}x {neutral(instance.gpu_name, 40)}"
    return Wish(what, instance.usd_per_hour, capacity(instance), label=instance.label)


async def _held_back(desk: Desk, asked: Asked, refusal: Refusal, wish: Wish) -> JsonObject:
    """Refused; or, if it is the mode alone, what was wished is kept: for a person, or for the record."""
    if refusal.code == NEEDS_APPROVAL:
        return await _hold(desk, asked, wish)
    if refusal.code == DRY_RUN:
        expected = f"expected {wish.usd_per_hour:.3f} USD/h and {wish.proofs_per_hour:.0f} proofs/h"
        return await _refused(desk, asked, Refusal(DRY_RUN, f"{refusal.sentence} ({wish.what}: {expected})"), wish)
    return await _refused(desk, asked, refusal)


async def _hold(desk: Desk, asked: Asked, wish: Wish) -> JsonObject:
    now = desk.services.now()
    expires_at = now + desk.subject.spec.approval_expiry
    waiting = await desk.services.ledger.hold(desk.run, asked, wish, expires_at=expires_at, now=now)
    with contextlib.suppress(TryLater):  # it waits all the same; the next action reads everything anew
        await desk.count_again()
    key = desk.subject.key
    desk.services.meter.acted(key, asked.kind, "waiting")
    await _say(desk, "Normal", "ApprovalNeeded", how_to_decide(waiting, key.namespace, key.name))
    told = {"action": waiting.name, "expires_at": f"{waiting.expires_at:%Y-%m-%dT%H:%M:%SZ}"}
    return {"ok": False, "waiting": told, "note": "a person decides; it counts meanwhile, so do not ask for it again"}


async def _refused(desk: Desk, asked: Asked, refusal: Refusal, wish: Wish | None = None) -> JsonObject:
    await desk.services.ledger.refuse(desk.run, asked, refusal, wish)
    await tell_refusal(desk, asked.kind, refusal, asked.kind)
    return {"ok": False, "refused": {"code": refusal.code, "sentence": refusal.sentence}}


async def tell_refusal(desk: Desk, kind: str, refusal: Refusal, what: str) -> None:
    """People hear of every action that a rule refused, and it is counted."""
    desk.services.meter.refused(desk.subject.key, kind, refusal.code)
    said = f"run {desk.run.run_id}: {what} refused ({refusal.code}): {refusal.sentence}"
    await _say(desk, "Normal", "ActionRefused", said)


def _result(effect: Effect, offer: Offer | None) -> JsonObject:
    answer: JsonObject = {"ok": effect.happened is True, "instance_id": effect.instance_id}
    if effect.happened is None:
        answer |= {"unclear": effect.words, FROM_STRANGERS: ["unclear"]}
    elif not effect.happened:
        answer |= {"failed": effect.words, FROM_STRANGERS: ["failed"]}
    elif offer is not None:
        answer |= {"usd_per_hour": f"{offer.usd_per_hour:.3f}", "expected_proofs_per_hour": round(offer_rate(offer))}
    return answer


async def _tell(desk: Desk, reason: str, effect: Effect, offer: Offer | None) -> None:
    with contextlib.suppress(TryLater):  # the effect stands all the same; the next action reads everything anew
        await desk.count_again()
    gpu = f"{offer.num_gpus}x {neutral(offer.gpu_name, 40)}" if offer else ""
    what = f" ({gpu}, {offer.usd_per_hour:.3f} USD/h)" if offer else ""
    said = f"run {desk.run.run_id}: {effect.instance_id}{what}: {effect.words}"
    await _say(desk, "Normal" if effect.happened else "Warning", reason, said)


async def _say(desk: Desk, kind: str, reason: str, message: str) -> None:
    """An Event about the resource."""
    meta, event = desk.subject.agent.metadata, desk.services.cluster.event
    await event(meta.namespace, meta.name, meta.uid, kind=kind, reason=reason, message=message)
