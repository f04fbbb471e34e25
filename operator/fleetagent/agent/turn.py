"""The story of a run. Read this first: one line a step, each step a file to open."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from fleetagent.agent.approvals import take_up
from fleetagent.agent.ask import UNAVAILABLE
from fleetagent.agent.clock import Now
from fleetagent.agent.compact import REMEDY
from fleetagent.agent.compose import Compose
from fleetagent.agent.controller import stand_in
from fleetagent.agent.desk import Desk, Services, market_of
from fleetagent.agent.gate import in_turn
from fleetagent.agent.judgement import (
    Trouble,
    budget_used_up,
    is_quiet,
    no_decision,
    outcome_of,
    summary_of,
    world_changed,
)
from fleetagent.agent.lease import Ownership
from fleetagent.agent.loop import Ending, Loop
from fleetagent.agent.skip import looks, nothing_new
from fleetagent.agent.subject import Subject
from fleetagent.agent.telling import telling
from fleetagent.agent.transcript import Transcript
from fleetagent.agent.unbroken import unbroken
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.observation import Observation
from fleetagent.domain.records import EFFECTS, Conclusion, Lease, Outcome, Run
from fleetagent.domain.schedule import Trigger, was_due_at
from fleetagent.domain.text import clean
from fleetagent.errors import (
    BadPrompt,
    BadResource,
    ContextFull,
    LeaseLost,
    ModelFailed,
    NotStorable,
    PromptTooLong,
    TryLater,
)
from fleetagent.ports import Ledger, Model, Runs, Worlds

log = logging.getLogger(__name__)

SKIPPED = Conclusion(
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
)
"""How a run ends that never asked the model."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run leaves for the report."""

    run: Run
    seen: Observation
    outcome: Outcome
    error: str | None
    model_problem: tuple[str, str] | None
    model_asked: bool


class Turn:
    """One run, from claim to conclusion. The lease is renewed beside it for as long as it takes."""

    def __init__(
        self,
        *,
        ownership: Ownership,
        runs: Runs,
        ledger: Ledger,
        worlds: Worlds,
        services: Services,
        compose: Compose,
        loop: Loop,
        now: Now,
        starting: asyncio.Semaphore,
    ) -> None:
        self._ownership = ownership
        self._runs = runs
        self._ledger = ledger
        self._worlds = worlds
        self._services = services
        self._compose = compose
        self._loop = loop
        self._now = now
        self._starting = starting

    async def take(self, subject: Subject, lease: Lease, newest: Callable[[Subject], Subject]) -> Ended:
        """Claim, observe, take up approvals, skip or think and act, conclude. `LeaseLost` when another process took it.

        `newest` gives the subject with the resource as it is by then: each action is judged by what is asked for now.
        Whatever else goes wrong in the middle gives back what called for the run: `TryLater` when the memory fails.
        """
        run: Run | None = None
        ended: Ended | None = None
        try:
            async with self._ownership.kept(lease), in_turn(self._starting) as let_the_next_start:
                run = await self._runs.claim(lease, self._now())
                kinds = ", ".join(run.calls.kinds)
                with telling(run=run.run_id, trigger=kinds):
                    log.info("%s run %s: %s", subject.key, run.run_id, kinds)
                    self._services.meter.run_began(subject.key, run, _due_at(subject, run))
                    ended = await self._go(subject, run, newest, let_the_next_start)
                    self._services.meter.run_ended(subject.key, run, ended.outcome)
                    return ended
        except (asyncio.CancelledError, Exception) as error:
            if run is not None:
                if ended is None:
                    self._services.meter.run_ended(subject.key, run, Outcome.INTERRUPTED)
                because = clean(str(error)) or type(error).__name__
                wanted = isinstance(error, asyncio.CancelledError)
                await unbroken(self._give_back(run, because, wanted=wanted))  # it may be cancelled once more
            raise

    async def _go(
        self, subject: Subject, run: Run, newest: Callable[[Subject], Subject], let_the_next_start: Callable[[], None]
    ) -> Ended:
        market = await market_of(self._worlds, subject)
        seen, pulse = await self._services.observe(subject, run.lease, run.run_id, market=market)
        desk = Desk(subject, run, self._services, seen, pulse, market, newest)
        if Trigger.APPROVAL in run.calls.kinds:
            await take_up(desk)
        if run.calls.kinds == (Trigger.APPROVAL,):
            return await self._without_model(desk, await self._taken_up(run))
        if await nothing_new(desk):
            return await self._without_model(desk, SKIPPED)
        desk.told = tuple(d.action_id for d in desk.pulse.decided)
        transcript = await self._compose(desk.subject, run, desk.seen)
        trouble = budget_used_up(subject, pulse)
        ending = Ending(done=False)
        let_the_next_start()  # what follows waits for the model
        if trouble is None:
            ending, trouble = await self._converse(desk, transcript)
        return await self._conclude(desk, transcript, ending, trouble)

    async def _taken_up(self, run: Run) -> Conclusion:
        """A run that took approvals up and nothing else; the agent is told of it in the next one."""
        actions = await self._ledger.actions(run.agent_id, run.run_id)
        ending = Ending(done=True, text="" if actions else "what was approved waits no more")
        effects = any(a.state in EFFECTS for a in actions)
        return replace(
            SKIPPED,
            outcome=outcome_of(ending, actions),
            summary=clean(f"as approved: {summary_of(ending, None, actions)}" if actions else ending.text),
            quiet=False,
            verdict={"action": effects, "state_changed": effects},
        )

    async def _without_model(self, desk: Desk, conclusion: Conclusion) -> Ended:
        await self._runs.conclude(desk.run, conclusion)
        _tell_the_end(desk, conclusion.outcome, conclusion.summary)
        return Ended(desk.run, desk.seen, conclusion.outcome, None, None, model_asked=False)

    async def _converse(self, desk: Desk, transcript: Transcript) -> tuple[Ending, Trouble | None]:
        nothing = Ending(done=False)
        try:
            return await self._loop.converse(desk, transcript, await self._model(desk.subject)), None
        except ModelFailed as error:
            return nothing, Trouble(Outcome.FAILED, error.reason, str(error))
        except ContextFull as error:
            return nothing, Trouble(Outcome.CONTEXT_FULL, "ContextFull", str(error), is_models=False)
        except PromptTooLong as error:
            return nothing, Trouble(Outcome.CONTEXT_FULL, "ContextFull", f"{error}; {REMEDY}", is_models=False)
        except BadPrompt as error:
            return nothing, Trouble(Outcome.FAILED, "InvalidPrompt", str(error), is_models=False)

    async def _model(self, subject: Subject) -> Model:
        try:
            return await self._worlds.model(subject.agent)
        except BadResource as error:
            raise ModelFailed(error.reason, str(error)) from error
        except TryLater as error:
            raise ModelFailed(UNAVAILABLE, str(error)) from error

    async def _conclude(self, desk: Desk, transcript: Transcript, ending: Ending, trouble: Trouble | None) -> Ended:
        run, spent = desk.run, transcript.spent
        undecided = trouble or no_decision(ending, desk.pulse)
        instead = await stand_in(desk, undecided)
        actions = await self._ledger.actions(run.agent_id, run.run_id)
        outcome = trouble.outcome if trouble else outcome_of(ending, actions)
        quiet = trouble is None and ending.done and is_quiet(desk, actions)
        error = clean(trouble.sentence) if trouble else ending.because
        if trouble is not None or not ending.done:
            # The next run must find an end here, or it would go on with this one's thoughts.
            note = f"(This run ended without an answer: {trouble.reason if trouble else ending.because}.)"
            if instead is not None:
                note = f"{note[:-1]} In your place the fallback controller decided: {instead}.)"
            await transcript.add([Message(run.run_id, Kind.REPLY, "assistant", note)])
        effects = any(a.state in EFFECTS for a in actions)
        summary = clean(summary_of(ending, trouble, actions))
        if instead is not None:
            summary = f"the controller decided: {instead}. {summary}"[:500]
        await self._runs.conclude(
            run,
            Conclusion(
                outcome=outcome,
                summary=summary,
                quiet=quiet,
                verdict={"action": effects, "state_changed": effects or world_changed(run.calls)},
                verdict_said=ending.verdict_said,
                error=error,
                model_calls=spent.model_calls,
                tokens_in=spent.tokens_in,
                tokens_out=spent.tokens_out,
                tokens_cached=spent.tokens_cached,
                usd=spent.usd,
                fingerprint=await looks(desk) if quiet else None,
                model_failed=None if undecided is not None and not undecided.is_models else undecided is not None,
                next_prompt_tokens=transcript.next_projected(without_mine=quiet),
                reason=trouble.reason if trouble else None,
                told=desk.told,
            ),
        )
        _tell_the_end(desk, outcome, summary)
        problem = (trouble.reason, trouble.sentence) if trouble is not None and trouble.is_models else None
        return Ended(run, desk.seen, outcome, error, problem, model_asked=spent.model_calls > 0)

    async def _give_back(self, run: Run, because: str, *, wanted: bool) -> None:
        """Replicas may be replaced several times while one run goes on: that must not cost what it was called for."""
        try:
            await self._runs.interrupt(run, because, wanted=wanted)
        except (LeaseLost, NotStorable, TryLater) as error:
            log.warning("run %s was not closed (%s); whoever runs next closes it", run.run_id, error)


def _due_at(subject: Subject, run: Run) -> datetime | None:
    planned = subject.record.next_scheduled_at if Trigger.SCHEDULE in run.calls.kinds else None
    debounce = subject.spec.schedule.debounce
    pending, wakes = run.calls.pending, run.calls.wakes
    return was_due_at(run.started_at, planned=planned, pending=pending, wakes=wakes, debounce=debounce)


def _tell_the_end(desk: Desk, outcome: Outcome, summary: str) -> None:
    log.info("%s run %s: %s: %s", desk.subject.key, desk.run.run_id, outcome, summary, extra={"outcome": outcome})
