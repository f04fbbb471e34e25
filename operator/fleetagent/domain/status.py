"""Facts → conditions: each a pure function, one writer, numbers in the message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.demand import DemandUnknown
from fleetagent.domain.fleet import FleetUnknown
from fleetagent.domain.money import dollars, over_budget
from fleetagent.domain.observation import Observation
from fleetagent.domain.records import Outcome
from fleetagent.domain.resource import Condition, Fallback, FleetAgentSpec, Mode


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition before it gets its time: status True, False or Unknown."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Health:
    """What is known beside the observation. None: not known yet, or nothing to say."""

    model_problem: tuple[str, str] | None = None
    """Reason and sentence of the last failure of the model; None after a success."""
    model_asked: bool = False
    problems: tuple[Finding, ...] = ()
    """What the resource's owner can mend: one finding per condition, from the errors of this pass."""
    last_outcome: Outcome | None = None
    last_error: str | None = None
    feedback_dropped: int = 0
    """People's messages of this session that a compaction had no room for."""
    controller_since: datetime | None = None
    """Since when the model has failed, where the controller decides in its place."""
    dropped: tuple[str, ...] | None = None
    """Fields of the last report that the API server did not keep; None before the first one."""
    delivery: Finding | None = None
    """Whether alerts reach those whom spec.alerts names."""
    counts: Counts | None = None
    """What the counts of the server and model that the spec names have told."""


def findings(
    spec: FleetAgentSpec,
    seen: Observation | None,
    health: Health,
    now: datetime,
    before: Iterable[Condition] = (),
) -> tuple[Finding, ...]:
    """Every condition, Ready last; an owner's problem overrides what the facts say of the same condition.

    `before` are the conditions that stand: what a process before this one learnt of the model holds until it is asked.
    """
    mended = {p.type: p for p in health.problems}
    found = [
        _suspended(spec, seen, now),
        _fleet_known(seen),
        _demand_known(seen),
        _model_available(health, before),
        _controller_deciding(spec, health),
        _can_launch(seen),
        _on_target(seen),
        _within_budget(spec, seen),
        _credit_lasts(seen),
        _context_fits(spec, health),
        _spec_honoured(),
        _schema_current(health, before),
    ]
    found += [health.delivery] if health.delivery is not None else []
    found = [mended.pop(f.type, f) for f in found]
    found += [f for f in mended.values() if f.type != "Ready"]
    ready = mended.get("Ready") or _ready(found, health)
    return (*found, *stalled(ready), ready)


ONLY_AN_EDIT_HELPS = frozenset(
    {
        "InvalidSpec",
        "InvalidSchedule",
        "BadURL",
        "MarketURLInvalid",
        "HostNotAllowed",
        "BadParameters",
        "QueryRefused",
        "QueryUnusable",
        "ContextFull",
    }
)
"""Everything else may mend itself while nobody touches the resource: a Secret is made, a server comes back."""


def stalled(ready: Finding) -> tuple[Finding, ...]:
    """By kstatus' convention, only there while it is True: waiting is in vain until somebody edits the resource."""
    if ready.status != "False" or ready.reason not in ONLY_AN_EDIT_HELPS:
        return ()
    return (Finding("Stalled", "True", ready.reason, ready.message),)


def _suspended(spec: FleetAgentSpec, seen: Observation | None, now: datetime) -> Finding:
    """Who holds the agent back, why and until when: all of them; the reason is the one that holds back the most."""
    said: dict[str, str] = {}
    if spec.mode is Mode.SUSPENDED:
        said["ModeSuspended"] = "spec.mode is Suspended: no runs; machines are left alone"
    if seen is not None and seen.launch_problem is not None and seen.launch_problem.reason == "InstallationStopped":
        said["InstallationStopped"] = seen.launch_problem.sentence
    if spec.pause is not None and now < spec.pause.until:
        what = " and ".join(spec.pause.directions)
        because = f": {spec.pause.reason}" if spec.pause.reason else ""
        said["Paused"] = f"spec.pause: {what} paused until {spec.pause.until:%Y-%m-%d %H:%M} UTC{because}"
    if not said:
        return Finding("Suspended", "False", "Running", "runs as scheduled")
    message = "; ".join(said.values())
    if "ModeSuspended" in said:
        return Finding("Suspended", "True", "ModeSuspended", message)
    return Finding("Suspended", "True", "InstallationStopped" if "InstallationStopped" in said else "Paused", message)


def _fleet_known(seen: Observation | None) -> Finding:
    if seen is None:
        return Finding("FleetKnown", "Unknown", "NotSeenYet", "the fleet has not been looked at yet")
    if isinstance(seen.fleet, FleetUnknown):
        sentence = f"nothing is launched or stopped: {seen.fleet.because}"
        return Finding("FleetKnown", "False", seen.fleet.reason, sentence)
    return Finding("FleetKnown", "True", "Listed", f"{len(seen.fleet.instances)} instances, ledger and market agree")


def _demand_known(seen: Observation | None) -> Finding:
    if seen is None:
        return Finding("DemandKnown", "Unknown", "NotSeenYet", "the demand has not been looked at yet")
    if isinstance(seen.demand, DemandUnknown):
        sentence = f"nothing is launched or stopped: {seen.demand.because}"
        return Finding("DemandKnown", "False", seen.demand.reason, sentence)
    queued = f", {seen.demand.queued} queued" if seen.demand.queued is not None else ""
    return Finding(
        "DemandKnown", "True", "Active" if seen.demand.active else "Inactive", f"active={seen.demand.active}{queued}"
    )


def _model_available(health: Health, before: Iterable[Condition]) -> Finding:
    if health.model_problem is not None:
        reason, sentence = health.model_problem
        return Finding("ModelAvailable", "False", reason, sentence)
    if not health.model_asked:
        if known := next((c for c in before if c.type == "ModelAvailable"), None):
            return Finding(known.type, known.status, known.reason, known.message)
        return Finding("ModelAvailable", "Unknown", "NotAskedYet", "the model has not been asked yet")
    return Finding("ModelAvailable", "True", "Answers", "the last request was answered")


def _controller_deciding(spec: FleetAgentSpec, health: Health) -> Finding:
    if health.controller_since is not None:
        sentence = (
            f"the model gives no answer since {health.controller_since:%Y-%m-%d %H:%M} UTC: in each run it is asked "
            "first, then arithmetic decides under the same rules"
        )
        return Finding("ControllerDeciding", "True", "ControllerDecides", sentence)
    if spec.fallback is Fallback.CONTROLLER:
        return Finding("ControllerDeciding", "False", "ModelDecides", "the model decides")
    return Finding("ControllerDeciding", "False", "NoFallback", "spec.fallback is Hold: only the model decides")


def _can_launch(seen: Observation | None) -> Finding:
    if seen is None:
        return Finding(
            "CanLaunch", "Unknown", "NotSeenYet", "what machines are started with has not been looked at yet"
        )
    if seen.launch_problem is not None:
        return Finding("CanLaunch", "False", seen.launch_problem.reason, seen.launch_problem.sentence)
    return Finding("CanLaunch", "True", "NothingMissing", "all that a new machine is started with is there")


def _on_target(seen: Observation | None) -> Finding:
    cap = seen.capacity if seen is not None else None
    if seen is None or cap is None or seen.target is None:
        return Finding("OnTarget", "Unknown", "FactsMissing", "fleet or demand is unknown")
    figures = (
        f"projected {cap.projected_proofs_per_hour:.0f} of {seen.target.proofs_per_hour:.0f} proofs/h, "
        f"{cap.proofs_per_hour:.0f} measured"
    )
    if not seen.on_target:
        return Finding("OnTarget", "False", "BelowTarget", figures)
    measured_too = Decimal(str(cap.proofs_per_hour)) >= seen.target.hold_from
    return Finding("OnTarget", "True", "Reached" if measured_too else "OnTheWay", figures)


def _within_budget(spec: FleetAgentSpec, seen: Observation | None) -> Finding:
    if seen is None or isinstance(seen.fleet, FleetUnknown):
        return Finding("WithinBudget", "Unknown", "FleetUnknown", "the bill is not known while the fleet is not")
    bill, budget = seen.fleet.usd_per_hour, spec.budget
    today = dollars(seen.usd_spent_today)
    figures = f"{dollars(bill)} of {dollars(budget.fleet_usd_per_hour)} USD per hour, {today} USD today"
    if over_budget(budget, bill, seen.usd_spent_today):
        return Finding(
            "WithinBudget", "False", "OverBudget", f"{figures}; caps stop no machine: lower the target or stop some"
        )
    return Finding("WithinBudget", "True", "Affordable", figures)


def _credit_lasts(seen: Observation | None) -> Finding:
    runway = seen.runway if seen is not None else None
    if runway is None:
        return Finding("CreditLasts", "Unknown", "AccountNotRead", "the market's account could not be read")
    if runway.is_low:
        refused = f"; the market said: {runway.refused}" if runway.refused is not None else ""
        sentence = f"{runway.words}{refused}: top the market's account up, or it stops every machine"
        return Finding("CreditLasts", "False", "CreditLow" if runway.refused is None else "NoCredit", sentence)
    if runway.credit_usd is None:
        return Finding("CreditLasts", "Unknown", "CreditNotTold", runway.words)
    lasts = f"{runway.hours:.0f} h" if runway.hours is not None else "as long as nothing bills"
    return Finding("CreditLasts", "True", "Enough", f"{runway.credit_usd:.0f} USD of credit, which last {lasts}")


def _context_fits(spec: FleetAgentSpec, health: Health) -> Finding:
    counts, budget = health.counts, spec.context.token_budget
    if health.last_outcome is Outcome.CONTEXT_FULL:
        sentence = health.last_error or "the prompt does not fit spec.context.tokenBudget: raise it"
        return Finding("ContextFits", "False", "ContextFull", sentence)
    if counts is not None and counts.clip is not None:
        sentence = (
            f"the model server counted {counts.clip.reported} tokens in a prompt of about {counts.clip.projected}: it "
            "cuts prompts off without a word, mostly in front, where role and limits stand. Serve the model with a "
            "longer window (Ollama: num_ctx), or lower spec.context.tokenBudget to the window"
        )
        return Finding("ContextFits", "False", "PromptClipped", sentence)
    if counts is not None and counts.window_tokens is not None and counts.window_tokens < budget:
        sentence = (
            f"spec.context.tokenBudget is {budget}, the model server's window {counts.window_tokens}: runs go on "
            "within the window. Lower the budget to it, or serve the model with a longer one"
        )
        return Finding("ContextFits", "False", "WindowTooSmall", sentence)
    if health.feedback_dropped:
        sentence = (
            f"{health.feedback_dropped} older messages of the operator had to leave the prompt: say again what still "
            "holds, or put it in spec.instructions"
        )
        return Finding("ContextFits", "True", "FeedbackDropped", sentence)
    if counts is not None and counts.uncounted:
        sentence = "the model server counts no tokens: sizes, spend and limits of tokens go by our estimates"
        return Finding("ContextFits", "True", "Estimated", sentence)
    return Finding("ContextFits", "True", "Fits", "the prompt fits its token budget")


def _spec_honoured() -> Finding:
    """A field that a version does not act on is said here, never silently ignored; of this one there is none."""
    return Finding("SpecHonoured", "True", "AllFields", "every field has its effect")


def _schema_current(health: Health, before: Iterable[Condition]) -> Finding:
    if health.dropped is None and (known := next((c for c in before if c.type == "SchemaCurrent"), None)):
        return Finding(known.type, known.status, known.reason, known.message)
    if not health.dropped:
        return Finding("SchemaCurrent", "True", "NothingDropped", "the API server keeps every field that is reported")
    fields = ", ".join(health.dropped[:MOST_NAMED])
    more = f" and {len(health.dropped) - MOST_NAMED} more" if len(health.dropped) > MOST_NAMED else ""
    sentence = (
        f"the CustomResourceDefinition of this cluster is older than the operator: it drops {fields}{more}, and maybe "
        "parts of spec. Apply this version's: `helm upgrade`, or `fleetagent crd | kubectl apply --server-side -f -`"
    )
    return Finding("SchemaCurrent", "False", "CRDOutdated", sentence)


MOST_NAMED = 8

NEEDED = frozenset({"FleetKnown", "DemandKnown", "ModelAvailable", "CanLaunch", "ContextFits"})
"""Without one of these, the agent cannot do its work."""


def _ready(found: Sequence[Finding], health: Health) -> Finding:
    for finding in found:
        if finding.type in NEEDED and finding.status == "False":
            return Finding("Ready", "False", finding.reason, f"{finding.type}: {finding.message}")
    if next(f for f in found if f.type == "Suspended").reason == "ModeSuspended":
        return Finding("Ready", "False", "Suspended", "spec.mode is Suspended")
    if health.last_outcome is Outcome.FAILED:
        return Finding("Ready", "False", "RunFailed", health.last_error or "the last run failed")
    if any(f.status == "Unknown" and f.type in {"FleetKnown", "DemandKnown"} for f in found):
        return Finding("Ready", "Unknown", "Starting", "the first look is under way")
    return Finding("Ready", "True", "Running", "runs as scheduled")


def merged(old: Iterable[Condition], new: Iterable[Finding], now: datetime, generation: int) -> tuple[Condition, ...]:
    """New findings with their times: `lastTransitionTime` moves only when the status does."""
    since = {c.type: c for c in old}
    out = []
    for finding in new:
        before = since.get(finding.type)
        kept = before is not None and before.status == finding.status
        condition = Condition(
            type=finding.type,
            status=finding.status,
            observed_generation=generation,
            last_transition_time=before.last_transition_time if before is not None and kept else now,
            reason=finding.reason,
            message=finding.message,
        )
        out.append(condition)
    return tuple(out)
