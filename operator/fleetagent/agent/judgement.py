"""What a run was: judged by what was written down, never by what was said."""

from dataclasses import dataclass

from fleetagent.agent.desk import Desk
from fleetagent.agent.loop import Ending
from fleetagent.agent.subject import Subject
from fleetagent.domain.guardrails import DRY_RUN
from fleetagent.domain.observation import Calls
from fleetagent.domain.records import EFFECTS, Action, ActionState, Outcome, Pulse
from fleetagent.domain.schedule import Trigger


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a run failed: the outcome, a CamelCase reason, a sentence."""

    outcome: Outcome
    reason: str
    sentence: str
    is_models: bool = True


TOKENS_USED_UP = "TokensUsedUp"


def budget_used_up(subject: Subject, pulse: Pulse) -> Trouble | None:
    """Why the model may not be asked any more today, or None."""
    most = subject.spec.budget.model_tokens_per_day
    if most is None or pulse.model_tokens_today < most:
        return None
    sentence = f"{pulse.model_tokens_today} of {most} model tokens are used up today (spec.budget.modelTokensPerDay)"
    return Trouble(Outcome.FAILED, TOKENS_USED_UP, sentence)


def no_decision(ending: Ending, pulse: Pulse) -> Trouble | None:
    """A run that was ended without an answer and did nothing: for who stands in for the model, as good as a failure."""
    if ending.done or pulse.launches_this_run or pulse.stops_this_run:
        return None
    return Trouble(Outcome.NO_PROGRESS, Outcome.NO_PROGRESS, ending.because or "")


def outcome_of(ending: Ending, actions: tuple[Action, ...]) -> Outcome:
    """How a run ended that had no trouble: by its end and by the ledger."""
    states = {a.state for a in actions}
    if not ending.done:
        return Outcome.NO_PROGRESS
    if states & {ActionState.UNKNOWN, ActionState.INTENDED}:
        return Outcome.UNCLEAR
    if ActionState.DONE in states:
        return Outcome.ACTED
    if ActionState.WAITING in states:
        return Outcome.WAITING
    return Outcome.REFUSED if states & {ActionState.REFUSED, ActionState.FAILED} else Outcome.HELD


def world_changed(calls: Calls) -> bool:
    """Whether the run was called because fleet or resource had changed."""
    return not {Trigger.EVENT, Trigger.SPEC_CHANGE}.isdisjoint(calls.kinds)


def is_quiet(desk: Desk, actions: tuple[Action, ...]) -> bool:
    """Nothing in it but looking, and every look answered; judged by what was written, never by wording."""
    calls = desk.run.calls
    spoken = any(p.kind is Trigger.FEEDBACK for p in calls.pending)
    changed = desk.wakes_changed or desk.alerts_raised
    told = desk.told  # what a person refused must stay in the agent's mind
    return not (actions or changed or told or desk.tools_failed or calls.wakes or spoken)


def summary_of(ending: Ending, trouble: Trouble | None, actions: tuple[Action, ...]) -> str:
    """One line for people: what was done and refused, then the model's own words."""
    if trouble is not None:
        return f"{trouble.reason}: {trouble.sentence}"[:500]
    done = [f"{a.kind} {a.provider_ref or a.label}" for a in actions if a.state in EFFECTS]
    waiting = [
        f"{a.kind} of {a.what} waits for approval (action-{a.id})" for a in actions if a.state is ActionState.WAITING
    ]
    refused = [_refused(a) for a in actions if a.state is ActionState.REFUSED]
    facts = ", ".join([*done, *waiting, *refused])
    words = ending.text or ending.because or ""
    return (f"{facts}. {words}".rstrip() if facts else words)[:500] or "held"


def _refused(action: Action) -> str:
    """Why; and what it would have cost and made, where nothing but mode DryRun held it back."""
    if action.refusal_code != DRY_RUN or action.usd_per_hour is None or action.proofs_per_hour is None:
        return f"{action.kind} refused ({action.refusal_code})"
    verb, sign = ("launched", "") if action.kind == "launch" else ("stopped", "-")
    usd, rate = f"{sign}{action.usd_per_hour:.3f} USD/h", f"{sign}{action.proofs_per_hour:.0f} p/h"
    return f"would have {verb} {action.what}, expected {usd} and {rate}"
