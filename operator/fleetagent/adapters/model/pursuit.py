"""Asks until there is a usable reply or a reason to stop: one pursuit per reply. Knows no HTTP library."""

import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import NoReturn, cast

from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from fleetagent.adapters.model.answers import Answer, NoAnswer
from fleetagent.adapters.model.complaints import (
    USELESS,
    Endpoint,
    filtered,
    halted,
    not_now,
    parameter_refused,
    until,
)
from fleetagent.adapters.model.gate import Gate
from fleetagent.adapters.model.payload import OTHER_OUTPUT_FIELD, Habits, Lesson, body_of, check_parameters, lesson_in
from fleetagent.adapters.model.reading import Setback, read, shown_id
from fleetagent.adapters.model.redact import shortened
from fleetagent.adapters.model.room import Room
from fleetagent.adapters.model.verdicts import Verdict
from fleetagent.adapters.model.waits import Timing, allowances, backoff_seconds
from fleetagent.domain.model import JsonObject, ModelRequest, NothingUsable, Reply
from fleetagent.errors import PromptTooLong, TryLater

log = logging.getLogger(__name__)

LOGGED_CHARS = 2_000
SAME_FAILURES = 3
CACHE_FULL_WAIT_SECONDS = 5.0  # until other requests have left the cache that they share with ours
SHORTEST_CALL_SECONDS = 1.0
CHARS_PER_TOKEN = 4
SHARED = frozenset({"RateLimited", "NotReady", "ModelLoading"})
"""Said of the endpoint and not of our request: who else asks it would hear the same."""
VARYING = re.compile(r"[0-9a-f-]{8,}|\d+")


@dataclass(frozen=True, slots=True)
class Means:
    """What every pursuit at one endpoint uses. `send` takes a body and the seconds that the whole call may last."""

    send: Callable[[JsonObject, float], Awaitable[Answer | NoAnswer]]
    offered: Callable[[], Awaitable[tuple[str, ...]]]
    hide: Callable[[str], str]
    endpoint: Endpoint
    habits: Habits
    gate: Gate
    timing: Timing


class Pursuit:
    """One reply, whatever it takes within `patience_seconds`."""

    def __init__(self, means: Means, request: ModelRequest, *, patience_seconds: float) -> None:
        check_parameters(request.parameters)
        self._means, self._request = means, request
        self._timeout_seconds = request.timeout.total_seconds()
        self._deadline = means.timing.monotonic() + patience_seconds
        self._room = Room(request.max_output_tokens, request.most_output_tokens)
        self._calls = 0
        self._sent = means.habits
        self._learnt: set[Lesson] = set()
        self._seen: Counter[str] = Counter()
        self._discarded: list[Reply] = []

    async def reply(self) -> Reply:
        """The first usable reply. Raises what ports.Model promises."""
        pursuing = AsyncRetrying(
            sleep=self._means.timing.sleep,
            retry=retry_if_result(lambda outcome: isinstance(outcome, Setback)),
            wait=self._pause_seconds,
            stop=self._is_too_late,
            retry_error_callback=self._give_up,
        )
        reply = cast("Reply", await pursuing(self._attempt))  # a setback is asked again or given up
        return replace(reply, discarded=tuple(self._discarded))

    # One call.

    async def _attempt(self) -> Reply | Setback:
        await self._turn()
        self._sent = replace(self._means.habits)
        body = body_of(self._request, self._means.endpoint.model, self._sent, self._room.tokens)
        self._calls += 1
        answer = await self._means.send(body, min(self._timeout_seconds, self._left()))
        outcome = read(answer, self._request, self._means.hide, self._means.timing.epoch())
        self._tell_gate(answer, outcome)
        if isinstance(outcome, Setback):
            self._log(outcome, answer)
            if outcome.reply is not None:
                self._discarded.append(outcome.reply)
            await self._face(outcome)
        return outcome

    async def _turn(self) -> None:
        """Wait until this endpoint may be asked. A pace that is only guessed at fails no run."""
        gate, timing = self._means.gate, self._means.timing
        needs = {"requests": 1.0, "tokens": _size(self._request) / CHARS_PER_TOKEN}
        while True:
            now = timing.monotonic()
            closed, paced = gate.closed_seconds(now), gate.paced_seconds(now, needs)
            if closed > 0 and self._leaves_no_time(closed):
                advice = f"the model server takes no request {until(timing.epoch() + closed)}, as it said: {gate.said}"
                raise not_now(gate.reason, advice, closed)
            wait = max(closed, 0.0 if self._leaves_no_time(paced) else paced)
            if wait <= 0:
                gate.passed(now, needs)
                return
            await timing.sleep(wait)

    def _tell_gate(self, answer: Answer | NoAnswer, outcome: Reply | Setback) -> None:
        """Close it when the server is busy or not ready; open it when it answers anything else."""
        gate, timing = self._means.gate, self._means.timing
        if isinstance(outcome, Setback) and outcome.judgement.reason in SHARED:
            reason, said = outcome.judgement.reason, outcome.said
            gate.refused(timing.monotonic(), outcome.wait_seconds, timing.chance(), reason, said)
        elif isinstance(answer, Answer):
            gate.answered(timing.monotonic(), allowances(answer.headers, timing.epoch()))

    # What a setback calls for: each of these changes what is asked next, or raises.

    async def _face(self, setback: Setback) -> None:
        match setback.judgement.verdict:
            case Verdict.RETRY:
                self._bear(setback)
            case Verdict.SHRINK:
                self._leave_less_room(setback)
            case Verdict.DEGRADE | Verdict.REPAIR:
                self._adapt(setback)
            case Verdict.HALT:
                await self._halt(setback)

    def _bear(self, setback: Setback) -> None:
        """Say so when the same came too often to be of the passing kind."""
        reason, said = setback.judgement.reason, setback.said
        if reason in USELESS:
            if self._count("useless") > 1:
                raise self._useless(f"the model server answered with {USELESS[reason]}, twice: {said}")
            if setback.reply is not None and setback.reply.cut_off:
                self._room.grow()
        elif reason == "CacheFull":
            if self._count(reason) > 1:
                raise PromptTooLong(f"the model server has no room for this prompt: {said}")
        elif reason == "ServerError" and self._count(VARYING.sub("#", said)) >= SAME_FAILURES:
            # Ids and numbers may differ. What gateways say is always the same, and is no such failure.
            raise TryLater(f"the model server failed {SAME_FAILURES} times in the same way: {said}")

    def _leave_less_room(self, setback: Setback) -> None:
        """Ask for a shorter answer when the prompt itself fits, once; else the prompt must shrink."""
        said, judgement = setback.said, setback.judgement
        if self._room.has_grown:
            raise self._useless(f"the model reasons to the limit and says nothing, and there is no more room: {said}")
        if not self._room.shrink(judgement.prompt_tokens, judgement.limit_tokens):
            message = f"the model server refuses the prompt for its length: {said}"
            raise PromptTooLong(message, limit_tokens=judgement.limit_tokens, prompt_tokens=judgement.prompt_tokens)

    def _adapt(self, setback: Setback) -> None:
        """Swap, drop or reshape what this endpoint refuses, once each, and remember it."""
        lesson = lesson_in(setback.judgement, self._sent)
        if lesson is None or lesson in self._learnt or setback.judgement.parameter in self._request.parameters:
            self._refused(setback)
        self._learnt.add(lesson)
        self._means.habits.learn(lesson)

    def _refused(self, setback: Setback) -> NoReturn:
        """No repetition helps: either the resource asks for it, or our request is wrong in this server's eyes."""
        name = setback.judgement.parameter
        if name in self._request.parameters or name in OTHER_OUTPUT_FIELD:
            raise parameter_refused(name, setback.said)
        raise self._useless(f"the model server refuses the request ({setback.judgement.reason}): {setback.said}")

    async def _halt(self, setback: Setback) -> NoReturn:
        judgement = setback.judgement
        if judgement.reason == "ServerSaysNo":
            raise TryLater(f"the model server failed and asks for no repetition: {setback.said}")
        if judgement.reason == "ContentFiltered":
            raise self._useless(filtered(setback.said))
        offered = await self._means.offered() if judgement.reason == "ModelNotFound" else ()
        raise halted(judgement, setback.said, self._means.endpoint, offered)

    def _useless(self, message: str) -> NothingUsable:
        *before, last = self._discarded or (None,)
        return NothingUsable(message, last and replace(last, discarded=tuple(filter(None, before))))

    # How long to wait, and when no longer.

    def _pause_seconds(self, state: RetryCallState) -> float:
        """Until the next call; none after a change of what is asked."""
        setback, timing = _setback(state), self._means.timing
        reason = setback.judgement.reason
        if setback.judgement.verdict is not Verdict.RETRY or reason == "Empty":
            return 0.0
        if reason in SHARED:
            return self._means.gate.closed_seconds(timing.monotonic())
        wait = setback.wait_seconds or backoff_seconds(state.attempt_number, timing.chance())
        return max(wait, CACHE_FULL_WAIT_SECONDS) if reason == "CacheFull" else wait

    def _is_too_late(self, state: RetryCallState) -> bool:
        return self._leaves_no_time(state.upcoming_sleep)

    def _leaves_no_time(self, wait_seconds: float) -> bool:
        return wait_seconds + min(SHORTEST_CALL_SECONDS, self._timeout_seconds / 2) > self._left()

    def _give_up(self, state: RetryCallState) -> NoReturn:
        setback = _setback(state)
        reason, asked = setback.judgement.reason, setback.wait_seconds
        when = f"; it takes no request {until(self._means.timing.epoch() + asked)}" if asked else ""
        advice = f"the model server is not available ({reason}, {self._calls} calls): {setback.said}{when}"
        raise not_now(reason, advice, asked)

    def _left(self) -> float:
        return self._deadline - self._means.timing.monotonic()

    def _count(self, what: str) -> int:
        self._seen[what] += 1
        return self._seen[what]

    def _log(self, setback: Setback, answer: Answer | NoAnswer) -> None:
        hide = self._means.hide
        text, request_id = (answer.text, shown_id(answer, hide)) if isinstance(answer, Answer) else (answer.message, "")
        log.warning(
            "model call failed: model=%s attempt=%d status=%s verdict=%s reason=%s request_id=%s body=%r",
            self._means.endpoint.model,
            self._calls,
            setback.status or "none",
            setback.judgement.verdict,
            setback.judgement.reason,
            request_id or "none",
            shortened(hide(text), LOGGED_CHARS),
        )


def _setback(state: RetryCallState) -> Setback:
    """What the last call came to: these callbacks are not asked about replies."""
    return cast("Setback", state.outcome.result() if state.outcome is not None else None)


def _size(request: ModelRequest) -> int:
    return sum(len(message.get("content") or "") for message in request.messages)
