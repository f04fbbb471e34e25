"""The tools, one function each: arguments in, a JSON object for the model out.

Names and shapes are promises: prompts, simulated models and people's notes rely on them.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fleetagent.agent.acting import launch, stop
from fleetagent.agent.desk import FROM_STRANGERS, Desk
from fleetagent.agent.planning import offers_for, plan
from fleetagent.domain.approval import told
from fleetagent.domain.arguments import compact
from fleetagent.domain.capacity import capacity, offer_rate, usd_per_proof
from fleetagent.domain.conversation.declared import as_declared, names, unknown_names
from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.facts import MODEL
from fleetagent.domain.fleet import FleetUnknown, Offer
from fleetagent.domain.model import JsonObject
from fleetagent.domain.money import dollars
from fleetagent.domain.schedule import wake_at
from fleetagent.domain.text import clean, neutral

log = logging.getLogger(__name__)

MOST_OFFERS_SHOWN = 15


class Arguments(BaseModel):
    """What every tool's arguments have in common. Types are exact: `conversation.declared` has read texts.

    Unknown keys are ignored by what only looks or notes; see `EffectArguments` for what acts.
    """

    model_config = ConfigDict(strict=True, extra="ignore", str_strip_whitespace=True)


class Nothing(Arguments):
    """No arguments."""


class EffectArguments(Arguments):
    """What acts refuses unknown keys: a `count` or `dry_run` that is ignored is not what the model meant."""

    model_config = ConfigDict(extra="forbid")


class LaunchArguments(EffectArguments):
    """One machine to rent."""

    offer_id: str = Field(min_length=1, max_length=40, description="id or alias of an offer shown in this run")
    reason: str = Field("", max_length=500, description="why, in one sentence")


class StopArguments(EffectArguments):
    """One machine to destroy."""

    instance_id: str = Field(min_length=1, max_length=100, description="id or alias of one of your instances")
    reason: str = Field("", max_length=500, description="why, in one sentence")


class CheckArguments(Arguments):
    """When to be called once more, and why."""

    minutes: float = Field(ge=0, le=100_000, allow_inf_nan=False, description="minutes from now")
    reason: str = Field(min_length=1, max_length=300, description="what you want to look at then")


class CancelArguments(Arguments):
    """A check that is not needed any more."""

    id: int = Field(ge=0, lt=2**63, description="id of the check")


class AlertArguments(Arguments):
    """Something that a person should do something about."""

    severity: Literal["info", "warning", "critical"] = Field(description="how bad it is")
    message: str = Field(min_length=1, max_length=500, description="what a person should know and do")


@dataclass(frozen=True)
class Tool:
    """One tool as the model sees it, and the function that answers."""

    name: str
    description: str
    arguments: type[Arguments]
    answer: Callable[[Desk, Any, str], Awaitable[JsonObject]]
    """Called with the desk, the valid arguments and the call's id."""

    @cached_property
    def schema(self) -> JsonObject:
        """The tool in chat-completions form, the same bytes each time."""
        parameters = self.arguments.model_json_schema()
        properties = {name: _lean(prop) for name, prop in parameters.get("properties", {}).items()}
        schema: JsonObject = {"type": "object", "properties": properties}
        if required := parameters.get("required"):
            schema["required"] = required
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": schema},
        }

    def read(self, given: JsonObject) -> Arguments:
        """The valid arguments. `ValueError`, a sentence that names the argument, for anything else."""
        function = self.schema["function"]
        fitted = as_declared(given, function)
        unknown = unknown_names(fitted, function)
        if unknown and self.arguments.model_config.get("extra") == "forbid":
            raise ValueError(f"there is no argument {', '.join(unknown)}; it takes {', '.join(names(function))}")
        try:
            return self.arguments.model_validate_json(compact(fitted))  # strictly JSON's types: a list may be a tuple
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _lean(prop: JsonObject) -> JsonObject:
    """Bounds and titles are checked by us; in the prompt they would cost tokens in every request."""
    return {key: value for key, value in prop.items() if key in {"type", "anyOf", "description", "enum"}}


async def get_fleet(desk: Desk, _: Nothing, __: str) -> JsonObject:
    """Every instance of ours, and what they add up to."""
    seen, spec = desk.seen, desk.subject.spec
    if isinstance(seen.fleet, FleetUnknown) or seen.capacity is None:
        because = seen.fleet.because if isinstance(seen.fleet, FleetUnknown) else "no figures"
        note = "nothing can be launched or stopped until it is known"
        return {"unknown": neutral(because, 200), "note": note, FROM_STRANGERS: ["unknown"]}
    held = {"waiting_for_a_person": [told(w) for w in seen.fleet.waiting]} if seen.fleet.waiting else {}
    return {
        "target_proofs_per_hour": seen.target.proofs_per_hour if seen.target else None,
        "proofs_per_hour": seen.capacity.proofs_per_hour,
        "projected_proofs_per_hour": seen.capacity.projected_proofs_per_hour,
        "usd_per_hour": dollars(seen.fleet.usd_per_hour),
        "budget_usd_per_hour": dollars(spec.budget.fleet_usd_per_hour),
        FROM_STRANGERS: ["gpu"],
        "instances": [
            {
                "instance_id": i.instance_id,
                "alias": i.alias,
                "gpu": f"{i.num_gpus}x {neutral(i.gpu_name, 40)}",
                "phase": i.phase.value,
                "minutes_in_phase": int((seen.at - i.phase_since).total_seconds() // 60),
                "counts_for": round(capacity(i)),
                "measured": round(i.measured_rate) if i.measured_rate is not None else None,
                "usd_per_hour": f"{i.usd_per_hour:.3f}",
            }
            for i in seen.fleet.instances
        ],
        **held,
    }


async def get_demand(desk: Desk, _: Nothing, __: str) -> JsonObject:
    """Whether proofs are wanted."""
    demand = desk.seen.demand
    if isinstance(demand, DemandUnknown):
        note = "nothing is launched or stopped until it is known"
        return {"unknown": neutral(demand.because, 200), "note": note, FROM_STRANGERS: ["unknown"]}
    return {"active": demand.active, "queued": demand.queued, "arrival_per_hour": demand.arrival_per_hour}


async def get_offers(desk: Desk, _: Nothing, __: str) -> JsonObject:
    """Acceptable offers, the cheapest proofs first."""
    offers = await offers_for(desk)
    best = sorted(offers, key=usd_per_proof)[:MOST_OFFERS_SHOWN]
    desk.show(*best)
    shown = [_offer(o, desk.offer_aliases[o.offer_id]) for o in best]
    return {"shown": len(best), "of": len(offers), FROM_STRANGERS: ["gpu"], "offers": shown}


async def plan_capacity(desk: Desk, _: Nothing, __: str) -> JsonObject:
    """The arithmetic: what is missing, which offers close the gap, what could go, what it costs."""
    return await plan(desk)


async def launch_instance(desk: Desk, arguments: LaunchArguments, call_id: str) -> JsonObject:
    """Rent one machine, if every guardrail lets it pass."""
    return await launch(desk, desk.offer_named(arguments.offer_id), clean(arguments.reason, 500), call_id, by=MODEL)


async def stop_instance(desk: Desk, arguments: StopArguments, call_id: str) -> JsonObject:
    """Destroy one machine, if every guardrail lets it pass."""
    return await stop(desk, arguments.instance_id, clean(arguments.reason, 500), call_id, by=MODEL)


async def schedule_next_check(desk: Desk, arguments: CheckArguments, _: str) -> JsonObject:
    """Remember a wake, clamped to what the spec allows."""
    limits = desk.subject.spec.schedule.wakes
    at = wake_at(arguments.minutes, desk.services.now(), limits)
    wake = await desk.services.runs.ask_wake(desk.run, at, clean(arguments.reason, 300), limit=limits.limit)
    if wake is None:
        return {"ok": False, "because": f"{limits.limit} checks are pending already; cancel one first"}
    desk.wakes_changed += 1
    log.info("%s run %s: wake %s at %s: %s", *desk.whose, wake.id, f"{wake.at:%Y-%m-%d %H:%M}", wake.reason)
    return {"ok": True, "id": wake.id, "at": f"{wake.at:%Y-%m-%d %H:%M} UTC"}


async def cancel_check(desk: Desk, arguments: CancelArguments, _: str) -> JsonObject:
    """Cancel a wake of this agent."""
    if await desk.services.runs.cancel_wake(desk.run, arguments.id):
        desk.wakes_changed += 1
        log.info("%s run %s: wake %s is cancelled", *desk.whose, arguments.id)
        return {"ok": True}
    return {"ok": False, "because": "no pending check has this id"}


async def raise_alert(desk: Desk, arguments: AlertArguments, _: str) -> JsonObject:
    """Tell a person: the keeper makes an Event of it when the run has ended."""
    message = clean(arguments.message, 500)
    alert_id = await desk.services.runs.raise_alert(
        desk.subject.record.id, desk.run.run_id, "Model", arguments.severity, message
    )
    desk.alerts_raised += 1
    if alert_id is None:
        return {"ok": True, "note": "the same alert is open already"}
    return {"ok": True, "id": f"alert-{alert_id}"}


def _offer(offer: Offer, alias: str) -> JsonObject:
    rate = offer_rate(offer)
    return {
        "offer_id": offer.offer_id,
        "alias": alias,
        "gpu": f"{offer.num_gpus}x {neutral(offer.gpu_name, 40)}",
        "ram_gb": round(offer.cpu_ram_gb),
        "cores": round(offer.cpu_cores),
        "reliability": round(offer.reliability, 3),
        "usd_per_hour": f"{offer.usd_per_hour:.3f}",
        "expected_proofs_per_hour": round(rate),
        "usd_per_proof": f"{usd_per_proof(offer):.4f}",
    }


TOOLS: tuple[Tool, ...] = (
    Tool("get_fleet", "Your instances with phase and rate, and what they add up to.", Nothing, get_fleet),
    Tool("get_demand", "Whether proofs are wanted, and how many wait.", Nothing, get_demand),
    Tool("get_offers", "Machines that could be rented now, the cheapest proofs first.", Nothing, get_offers),
    Tool(
        "plan_capacity",
        "Does all arithmetic: shortfall, which offers close it, what could be stopped, cost. Call it before you act.",
        Nothing,
        plan_capacity,
    ),
    Tool("launch_instance", "Rent the machine of one offer.", LaunchArguments, launch_instance),
    Tool("stop_instance", "Destroy one of your machines for good.", StopArguments, stop_instance),
    Tool(
        "schedule_next_check",
        "Be called once more in so many minutes. Not for routine: you are called on a schedule and at every change.",
        CheckArguments,
        schedule_next_check,
    ),
    Tool("cancel_check", "Cancel a check that you asked for.", CancelArguments, cancel_check),
    Tool("raise_alert", "Tell a person about something that needs a person.", AlertArguments, raise_alert),
)
