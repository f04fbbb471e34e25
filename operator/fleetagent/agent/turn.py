"""The story of a run. Read this first: one line a step, each step a file to open."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from fleetagent.agent.clock import Now
from fleetagent.agent.compact import ContextFull
from fleetagent.agent.compose import Compose, Transcript
from fleetagent.agent.desk import Desk, Services
from fleetagent.agent.lease import kept
from fleetagent.agent.loop import Ending, Loop
from fleetagent.agent.subject import Subject, spec_hash
from fleetagent.domain.messages import Kind, Message
from fleetagent.domain.money import model_usd
from fleetagent.domain.observation import Observation, fingerprint
from fleetagent.domain.records import Action, ActionState, Conclusion, Lease, Outcome, Pulse, Run
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import BadReply, BadResource, LeaseLost, PromptTooLong, TryLater
from fleetagent.ports import Agents, Ledger, Market, Runs, Worlds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run leaves for the report."""

    run: Run
    seen: Observation
    outcome: Outcome
    error: str | None
    model_problem: tuple[str, str] | None
    model_asked: bool


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a run failed: the outcome, a CamelCase reason, a sentence."""

    outcome: Outcome
    reason: str
    sentence: str
    is_models: bool = True


class Turn:
    """One run, from claim to conclusion. The lease is renewed beside it for as long as it takes."""

    def __init__(
        self,
        *,
        agents: Agents,
        runs: Runs,
        ledger: Ledger,
        worlds: Worlds,
        services: Services,
        compose: Compose,
        loop: Loop,
        now: Now,
        renew_every: timedelta,
    ) -> None:
        self._agents = agents
        self._runs = runs
        self._ledger = ledger
        self._worlds = worlds
        self._services = services
        self._compose = compose
        self._loop = loop
        self._now = now
        self._renew_every = renew_every

    async def take(self, subject: Subject, lease: Lease, kinds: tuple[Trigger, ...]) -> Ended:
        """Claim, observe, skip or think and act, conclude. `LeaseLost` when another process took over."""
        run = await self._runs.claim(lease, kinds, self._now())
        log.info("%s run %s: %s", subject.key, run.run_id, ", ".join(run.calls.kinds))
        try:
            async with kept(self._agents, lease, self._renew_every):
                return await self._go(subject, run)
        except asyncio.CancelledError:
            await self._give_back(run, "cancelled")
            raise

    async def _go(self, subject: Subject, run: Run) -> Ended:
        seen, pulse = await self._services.observe(subject, run.lease, run.run_id)
        if self._nothing_new(subject, run, seen):
            return await self._skip(subject, run, seen)
        desk = Desk(subject, run, self._services, seen, pulse, await self._market(subject))
        transcript = await self._compose(subject, run, seen)
        trouble = _budget_used_up(subject, pulse)
        ending = Ending(done=False, text="", verdict_said=None, model_calls=0)
        if trouble is None:
            ending, trouble = await self._converse(desk, transcript)
        return await self._conclude(desk, transcript, ending, trouble)

    async def _market(self, subject: Subject) -> Market | None:
        """None when the market cannot be named at all; the observation says why."""
        try:
            return await self._worlds.market(subject.agent)
        except (BadResource, TryLater) as error:
            log.warning("%s: %s", subject.key, error)
            return None

    def _nothing_new(self, subject: Subject, run: Run, seen: Observation) -> bool:
        """Whether the model would be asked about a world that it has just seen and kept quiet about."""
        schedule, quiet = subject.spec.schedule, subject.record.quiet
        if not schedule.skip_unchanged or quiet is None or run.calls.kinds != (Trigger.SCHEDULE,):
            return False
        longest = schedule.max_quiet if seen.on_target else min(schedule.max_quiet, timedelta(minutes=15))
        if self._now() - quiet.at >= longest:
            return False
        return fingerprint(seen, spec_hash(subject.spec)) == quiet.fingerprint

    async def _skip(self, subject: Subject, run: Run, seen: Observation) -> Ended:
        await self._runs.conclude(
            run,
            Conclusion(
                outcome=Outcome.SKIPPED,
                summary="nothing new since a quiet run; the model was not asked",
                quiet=True,
                verdict={"action": False, "state_changed": False},
                verdict_said=None,
                error=None,
                model_calls=0,
                tokens_in=0,
                tokens_out=0,
                tokens_cached=0,
                usd=Decimal(0),
                fingerprint=None,
                model_failed=None,
            ),
        )
        return Ended(run, seen, Outcome.SKIPPED, None, None, model_asked=False)

    async def _converse(self, desk: Desk, transcript: Transcript) -> tuple[Ending, Trouble | None]:
        ending = Ending(done=False, text="", verdict_said=None, model_calls=1)
        try:
            model = await self._worlds.model(desk.subject.agent)
            return await self._loop.converse(desk, transcript, model), None
        except ContextFull as error:
            return ending, Trouble(Outcome.CONTEXT_FULL, "ContextFull", str(error), is_models=False)
        except PromptTooLong as error:
            sentence = f"the model server refused the prompt for its length: {error}"
            return ending, Trouble(Outcome.CONTEXT_FULL, "ContextFull", sentence, is_models=False)
        except BadReply as error:
            return ending, Trouble(Outcome.FAILED, "BadReply", str(error))
        except BadResource as error:
            return ending, Trouble(Outcome.FAILED, error.reason, str(error))
        except TryLater as error:
            return ending, Trouble(Outcome.FAILED, "Unreachable", str(error))

    async def _conclude(self, desk: Desk, transcript: Transcript, ending: Ending, trouble: Trouble | None) -> Ended:
        subject, run = desk.subject, desk.run
        actions = await self._ledger.actions(run.agent_id, run.run_id)
        outcome = trouble.outcome if trouble else _outcome(ending, actions)
        quiet = trouble is None and ending.done and _is_quiet(desk, actions)
        if trouble is not None and (not transcript.mine or transcript.mine[-1].role != "assistant"):
            note = f"(This run ended without an answer: {trouble.reason}.)"
            await transcript.add([Message(run.run_id, Kind.REPLY, "assistant", note)])
        effects = [a for a in actions if a.state in _EFFECTS]
        await self._runs.conclude(
            run,
            Conclusion(
                outcome=outcome,
                summary=_summary(ending, trouble, actions),
                quiet=quiet,
                verdict={"action": bool(effects), "state_changed": bool(effects)},
                verdict_said=ending.verdict_said,
                error=trouble.sentence if trouble else ending.because,
                model_calls=ending.model_calls,
                tokens_in=sum(u.prompt_tokens or 0 for u in transcript.usage),
                tokens_out=sum(u.completion_tokens or 0 for u in transcript.usage),
                tokens_cached=sum(u.cached_tokens or 0 for u in transcript.usage),
                usd=_model_bill(subject, transcript),
                fingerprint=fingerprint(desk.seen, spec_hash(subject.spec)) if quiet else None,
                model_failed=None if trouble is not None and not trouble.is_models else trouble is not None,
                next_prompt_tokens=transcript.next_projected(without_mine=quiet),
            ),
        )
        log.info("%s run %s: %s: %s", subject.key, run.run_id, outcome, _summary(ending, trouble, actions))
        problem = (trouble.reason, trouble.sentence) if trouble is not None and trouble.is_models else None
        error = trouble.sentence if trouble else None
        return Ended(run, desk.seen, outcome, error, problem, model_asked=ending.model_calls > 0)

    async def _give_back(self, run: Run, because: str) -> None:
        try:
            await self._runs.interrupt(run, because)
        except (LeaseLost, TryLater) as error:
            log.warning("run %s was not closed (%s); whoever runs next closes it", run.run_id, error)


_EFFECTS = {ActionState.DONE, ActionState.UNKNOWN, ActionState.INTENDED}


def _budget_used_up(subject: Subject, pulse: Pulse) -> Trouble | None:
    most = subject.spec.budget.model_tokens_per_day
    if most is None or pulse.model_tokens_today < most:
        return None
    sentence = f"{pulse.model_tokens_today} of {most} model tokens are used up today (spec.budget.modelTokensPerDay)"
    return Trouble(Outcome.FAILED, "TokensUsedUp", sentence)


def _outcome(ending: Ending, actions: tuple[Action, ...]) -> Outcome:
    states = {a.state for a in actions}
    if not ending.done:
        return Outcome.NO_PROGRESS
    if states & {ActionState.UNKNOWN, ActionState.INTENDED}:
        return Outcome.UNCLEAR
    if ActionState.DONE in states:
        return Outcome.ACTED
    return Outcome.REFUSED if ActionState.REFUSED in states else Outcome.HELD


def _is_quiet(desk: Desk, actions: tuple[Action, ...]) -> bool:
    """Nothing in it but looking; judged by what was written, never by wording."""
    calls = desk.run.calls
    spoken = any(p.kind is Trigger.FEEDBACK for p in calls.pending)
    return not (actions or desk.wakes_asked or desk.alerts_raised or calls.wakes or spoken)


def _summary(ending: Ending, trouble: Trouble | None, actions: tuple[Action, ...]) -> str:
    if trouble is not None:
        return f"{trouble.reason}: {trouble.sentence}"[:500]
    done = [f"{a.kind} {a.provider_ref or a.label}" for a in actions if a.state in _EFFECTS]
    refused = [f"{a.kind} refused ({a.refusal_code})" for a in actions if a.state is ActionState.REFUSED]
    facts = ", ".join([*done, *refused])
    words = ending.text or ending.because or ""
    return (f"{facts}. {words}" if facts else words)[:500] or "held"


def _model_bill(subject: Subject, transcript: Transcript) -> Decimal:
    prices = subject.spec.model.usd_per_million_tokens
    if prices is None:
        return Decimal(0)
    bills = (
        model_usd(
            u.prompt_tokens or 0,
            u.cached_tokens or 0,
            u.completion_tokens or 0,
            input_price=prices.input,
            cached_price=prices.cached_input,
            output_price=prices.output,
        )
        for u in transcript.usage
    )
    return sum(bills, Decimal(0))
