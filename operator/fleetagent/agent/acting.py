"""One action from wish to effect: fresh facts → guardrails → ledger → market → words."""

import contextlib
from typing import Any

from fleetagent.agent.desk import Desk
from fleetagent.agent.effects import MIN_RATE, Effect, Wanted
from fleetagent.agent.planning import with_history
from fleetagent.domain.capacity import offer_rate
from fleetagent.domain.facts import Launch, Refusal, Stop
from fleetagent.domain.fleet import Fleet, Offer
from fleetagent.domain.guardrails import check
from fleetagent.domain.model import JsonObject
from fleetagent.domain.money import min_rate
from fleetagent.domain.records import LaunchIntent
from fleetagent.errors import BadResource, TryLater

NO_MARKET = Refusal("MarketUnavailable", "the market cannot be used now")


async def launch(desk: Desk, offer_id: str, reason: str, call_id: str, *, by: str) -> JsonObject:
    """Rent the machine of one offer. The answer says what happened, or which rule refused it."""
    disk_gb = desk.subject.spec.fleet.vast.instance.disk_gb
    shown = desk.offers_shown.get(offer_id)
    offer = await desk.market.offer(offer_id, disk_gb) if desk.market and shown else None
    offer = with_history(desk.pulse, offer) if offer is not None else None
    facts = await desk.facts(offer, await desk.services.cluster.installation_stop())
    wish = Launch(offer_id, reason)
    refusal = check(wish, facts)
    args = {"offer_id": offer_id, "reason": reason}
    if refusal is not None or offer is None or desk.market is None:
        return await _refused(desk, "launch", call_id, args, refusal or NO_MARKET, by)
    try:
        env = await desk.services.worlds.instance_env(desk.subject.agent)
    except BadResource as error:
        return await _refused(desk, "launch", call_id, args, Refusal(error.reason, str(error)), by)
    effect = await desk.services.effects.launch(desk.run, desk.market, _wanted(desk, offer, env, call_id, args, by))
    reason = "Launched" if effect.happened else "LaunchUnclear" if effect.happened is None else "LaunchFailed"
    await _tell(desk, reason, effect, offer)
    return _result(effect, offer)


def _wanted(desk: Desk, offer: Offer, env: Any, call_id: str, args: JsonObject, by: str) -> Wanted:
    spec = desk.subject.spec
    template = spec.fleet.vast.instance
    secret = desk.services.new_secret()
    floor = min_rate(offer.usd_per_hour, spec.budget.usd_per_proof, template.min_proofs_per_hour)
    intent = LaunchIntent(
        intent_key=_intent_key(desk, call_id),
        by=by,
        label=f"{desk.subject.label_prefix}{desk.services.new_secret().token[:12]}",
        args=args,
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
    """Destroy one machine of ours. The answer says what happened, or which rule refused it."""
    facts = await desk.facts(None, await desk.services.cluster.installation_stop())
    refusal = check(Stop(instance_id, reason), facts)
    args = {"instance_id": instance_id, "reason": reason}
    instance = facts.fleet.named(instance_id) if isinstance(facts.fleet, Fleet) else None
    if refusal is not None or instance is None or desk.market is None:
        return await _refused(desk, "stop", call_id, args, refusal or NO_MARKET, by)
    effect = await desk.services.effects.stop(
        desk.run.lease,
        desk.run.run_id,
        desk.market,
        instance,
        intent_key=_intent_key(desk, call_id),
        by=by,
        reason=reason,
    )
    await _tell(desk, "Stopped" if effect.happened else "StopUnclear", effect, None)
    return _result(effect, None)


def _intent_key(desk: Desk, call_id: str) -> str:
    return f"{desk.subject.record.id}:{desk.run.run_id}:{call_id}"


async def _refused(desk: Desk, kind: str, call_id: str, args: JsonObject, refusal: Refusal, by: str) -> JsonObject:
    await desk.services.ledger.refuse(
        desk.run, kind, intent_key=_intent_key(desk, call_id), by=by, args=args, refusal=refusal
    )
    meta = desk.subject.agent.metadata
    await desk.services.cluster.event(
        meta.namespace,
        meta.name,
        meta.uid,
        kind="Normal",
        reason="ActionRefused",
        message=f"run {desk.run.run_id}: {kind} refused ({refusal.code}): {refusal.sentence}",
    )
    return {"ok": False, "refused": {"code": refusal.code, "sentence": refusal.sentence}}


def _result(effect: Effect, offer: Offer | None) -> JsonObject:
    answer: JsonObject = {"ok": effect.happened is True, "instance_id": effect.instance_id}
    if effect.happened is None:
        answer["unclear"] = effect.words
    elif not effect.happened:
        answer["failed"] = effect.words
    elif offer is not None:
        answer |= {"usd_per_hour": f"{offer.usd_per_hour:.3f}", "expected_proofs_per_hour": round(offer_rate(offer))}
    return answer


async def _tell(desk: Desk, reason: str, effect: Effect, offer: Offer | None) -> None:
    with contextlib.suppress(TryLater):  # the effect stands all the same; the next action reads everything anew
        await desk.count_again()
    meta = desk.subject.agent.metadata
    what = f" ({offer.num_gpus}x {offer.gpu_name}, {offer.usd_per_hour:.3f} USD/h)" if offer else ""
    await desk.services.cluster.event(
        meta.namespace,
        meta.name,
        meta.uid,
        kind="Normal" if effect.happened else "Warning",
        reason=reason,
        message=f"run {desk.run.run_id}: {effect.instance_id}{what}: {effect.words}",
    )
