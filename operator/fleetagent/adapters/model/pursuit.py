"""Asks until there is a usable reply or a reason to stop: one pursuit per reply. Knows no HTTP library."""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

from fleetagent.adapters.model.answers import Answer, Because, NoAnswer
from fleetagent.adapters.model.complaints import Endpoint, halted, parameter_refused
from fleetagent.adapters.model.faults import fault_in
from fleetagent.adapters.model.parse import is_empty, reply_in
from fleetagent.adapters.model.payload import OTHER_OUTPUT_FIELD, Habits, body_of, check_parameters
from fleetagent.adapters.model.redact import shortened
from fleetagent.adapters.model.textcalls import with_calls_from_text
from fleetagent.adapters.model.verdicts import Judgement, Verdict, judge
from fleetagent.adapters.model.waits import LONGEST_WAIT_SECONDS, Timing, asked_wait_seconds, backoff_seconds
from fleetagent.domain.model import JsonObject, ModelRequest, Reply
from fleetagent.errors import BadReply, PromptTooLong, TryLater

log = logging.getLogger(__name__)

LOGGED_CHARS = 2_000
SAID_CHARS = 300
SAME_FAILURES = 3
DEGRADATIONS = 3
SMALLEST_ROOM_TOKENS = 256
ROOM_MARGIN_TOKENS = 16  # some servers are a token stricter than their sentence
CACHE_FULL_WAIT_SECONDS = 5.0  # until other requests have left the cache that they share with ours
SHORTEST_CALL_SECONDS = 1.0
USELESS = {"Empty": "no text and no tool call", "NoChoices": "no choices", "NotJSON": "no JSON"}
VARYING = re.compile(r"[0-9a-f-]{8,}|\d+")


@dataclass(frozen=True, slots=True)
class Setback:
    """One call that gave no usable reply: what was decided, what the other side said, what it asked us to wait."""

    judgement: Judgement
    said: str
    status: int | None = None
    wait_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Means:
    """What every pursuit at one endpoint uses. `send` takes a body and the seconds that the whole call may last."""

    send: Callable[[JsonObject, float], Awaitable[Answer | NoAnswer]]
    offered: Callable[[], Awaitable[tuple[str, ...]]]
    hide: Callable[[str], str]
    endpoint: Endpoint
    habits: Habits
    timing: Timing


class Pursuit:
    """One reply, whatever it takes within `patience_seconds`."""

    def __init__(self, means: Means, request: ModelRequest, *, patience_seconds: float) -> None:
        check_parameters(request.parameters)
        self._means, self._request = means, request
        self._timeout_seconds = request.timeout.total_seconds()
        self._deadline = means.timing.monotonic() + patience_seconds
        self._output_tokens = request.max_output_tokens
        self._failures = 0
        self._shrunk = self._grown = self._cut_off = False
        self._seen: dict[str, int] = {}

    async def reply(self) -> Reply:
        """The first usable reply. Raises what ports.Model promises."""
        while True:
            setback = await self._attempt()
            if isinstance(setback, Reply):
                return setback
            match setback.judgement.verdict:
                case Verdict.RETRY:
                    await self._again_later(setback)
                case Verdict.SHRINK:
                    self._leave_less_room(setback)
                case Verdict.DEGRADE:
                    self._degrade(setback)
                case Verdict.REPAIR:
                    self._refused(setback)
                case Verdict.HALT:
                    await self._halt(setback)

    async def _attempt(self) -> Reply | Setback:
        body = body_of(self._request, self._means.endpoint.model, self._means.habits, self._output_tokens)
        left = self._deadline - self._means.timing.monotonic()
        answer = await self._means.send(body, min(self._timeout_seconds, left))
        outcome = self._read(answer)
        if isinstance(outcome, Setback):
            self._failures += 1
            self._log(outcome, answer)
        return outcome

    def _read(self, answer: Answer | NoAnswer) -> Reply | Setback:
        """What this answer means: nothing is indexed before it was looked at."""
        if isinstance(answer, NoAnswer):
            return Setback(NO_ANSWER[answer.because], self._say(answer.message))
        fault = fault_in(answer)
        if fault:
            wait = asked_wait_seconds(answer.headers, fault.message, self._means.timing.epoch())
            said = self._say(f"{fault.status}: {fault.message or 'no message'}")
            return Setback(judge(fault), said, fault.status, wait)
        reply = reply_in(answer.json, answer.request_id)
        if reply is None:
            reason = "NotJSON" if answer.json is None else "NoChoices"
            return Setback(Judgement(Verdict.RETRY, reason), self._say(answer.text) or "an empty body", answer.status)
        if self._request.may_call_tools and not reply.calls:
            reply = with_calls_from_text(reply, self._request.tools)
        judgement = self._judge_reply(reply)
        return Setback(judgement, self._say(answer.text), answer.status) if judgement else reply

    def _judge_reply(self, reply: Reply) -> Judgement | None:
        """What is wrong with a reply that came without an error, or None."""
        if reply.finish_reason == "content_filter":
            return Judgement(Verdict.HALT, "ContentFiltered")
        if not is_empty(reply):
            return None
        if reply.finish_reason == "model_context_window_exceeded":
            return Judgement(Verdict.SHRINK, "PromptTooLong")
        self._cut_off = reply.cut_off
        return Judgement(Verdict.RETRY, "Empty")

    async def _again_later(self, setback: Setback) -> None:
        """Wait, or say why not: it was the same too often, or there is no time left."""
        reason, said = setback.judgement.reason, setback.said
        wait = setback.wait_seconds or backoff_seconds(self._failures, self._means.timing.chance())
        if reason in USELESS:
            if self._count("useless") > 1:
                raise BadReply(f"the model server answered with {USELESS[reason]}, twice: {said}")
            wait = self._give_more_room() if reason == "Empty" else wait
        elif reason == "CacheFull":
            if self._count(reason) > 1:
                raise PromptTooLong(f"the model server has no room for this prompt: {said}")
            wait = max(wait, CACHE_FULL_WAIT_SECONDS)
        elif self._is_deterministic(setback):
            raise TryLater(f"the model server failed {SAME_FAILURES} times in the same way: {said}")
        left = self._deadline - self._means.timing.monotonic()
        if wait > LONGEST_WAIT_SECONDS or wait + min(SHORTEST_CALL_SECONDS, self._timeout_seconds / 2) > left:
            advice = f"the model server is not available ({reason}, {self._failures} calls): {said}"
            raise TryLater(advice, retry_after_seconds=setback.wait_seconds)
        if wait > 0:
            await self._means.timing.sleep(wait)

    def _is_deterministic(self, setback: Setback) -> bool:
        """The same failure again and again is not of the passing kind; ids and numbers in it may differ.

        What a gateway says (502, 503, 504) is always the same and counts as "not ready", not as this.
        """
        if setback.judgement.reason != "ServerError":
            return False
        return self._count(VARYING.sub("#", setback.said)) >= SAME_FAILURES

    def _give_more_room(self) -> float:
        """Reasoning that was cut off gets twice the tokens to come to an end; returns the wait, which is none."""
        if self._cut_off and not self._shrunk:
            self._output_tokens *= 2
            self._grown = True
        return 0.0

    def _leave_less_room(self, setback: Setback) -> None:
        """Ask for a shorter answer when the prompt itself fits, once; else the prompt must shrink."""
        prompt, limit = setback.judgement.prompt_tokens, setback.judgement.limit_tokens
        if self._grown:
            raise BadReply(
                f"the model reasons to the limit and says nothing, and there is no more room: {setback.said}"
            )
        if not self._shrunk and prompt is not None and limit is not None:
            room = limit - prompt - ROOM_MARGIN_TOKENS
            if room >= min(SMALLEST_ROOM_TOKENS, self._output_tokens // 2):
                # A refusal although there is room enough: the server counts more than it says.
                self._output_tokens = room if room < self._output_tokens else self._output_tokens // 2
                self._shrunk = True
                return
        raise PromptTooLong(f"the model server refuses the prompt for its length: {setback.said}", limit_tokens=limit)

    def _degrade(self, setback: Setback) -> None:
        """Swap or drop what this endpoint refuses, and remember it; what the resource asks for is not dropped."""
        habits, name = self._means.habits, setback.judgement.parameter
        if self._count("degraded") > DEGRADATIONS:
            raise BadReply(f"the model server refuses one parameter after another: {setback.said}")
        if name in OTHER_OUTPUT_FIELD and self._count(name) == 1:
            habits.output_field = OTHER_OUTPUT_FIELD[name]
        elif name == "tool_choice" and habits.takes_tool_choice:
            habits.takes_tool_choice = False
        else:
            self._refused(setback)

    def _refused(self, setback: Setback) -> NoReturn:
        """No repetition helps: either the resource asks for it, or our request is wrong in this server's eyes."""
        name = setback.judgement.parameter
        if name in self._request.parameters or name in OTHER_OUTPUT_FIELD:
            raise parameter_refused(name, setback.said)
        raise BadReply(f"the model server refuses the request ({setback.judgement.reason}): {setback.said}")

    async def _halt(self, setback: Setback) -> NoReturn:
        if setback.judgement.reason == "ServerSaysNo":
            raise TryLater(f"the model server failed and asks for no repetition: {setback.said}")
        offered = await self._means.offered() if setback.judgement.reason == "ModelNotFound" else ()
        raise halted(setback.judgement, setback.said, self._means.endpoint, offered)

    def _count(self, what: str) -> int:
        self._seen[what] = self._seen.get(what, 0) + 1
        return self._seen[what]

    def _say(self, text: str) -> str:
        return shortened(self._means.hide(text), SAID_CHARS)

    def _log(self, setback: Setback, answer: Answer | NoAnswer) -> None:
        text = answer.text if isinstance(answer, Answer) else answer.message
        log.warning(
            "model call failed: model=%s attempt=%d status=%s verdict=%s reason=%s request_id=%s body=%r",
            self._means.endpoint.model,
            self._failures,
            setback.status or "none",
            setback.judgement.verdict,
            setback.judgement.reason,
            (answer.request_id if isinstance(answer, Answer) else None) or "none",
            shortened(self._means.hide(text), LOGGED_CHARS),
        )


NO_ANSWER = {
    Because.TIMEOUT: Judgement(Verdict.RETRY, "Timeout"),
    Because.CONNECTION: Judgement(Verdict.RETRY, "Unreachable"),
    Because.CERTIFICATE: Judgement(Verdict.HALT, "CertificateRefused"),
    Because.URL: Judgement(Verdict.HALT, "BadURL"),
}
