"""What one answer means: a reply that can be used, or a setback. Pure; nothing is indexed before it was looked at."""

from collections.abc import Callable
from dataclasses import dataclass

from fleetagent.adapters.model.answers import Answer, Because, NoAnswer
from fleetagent.adapters.model.faults import fault_in
from fleetagent.adapters.model.parse import is_empty, reply_in
from fleetagent.adapters.model.redact import shortened
from fleetagent.adapters.model.textcalls import with_calls_from_text
from fleetagent.adapters.model.verdicts import Judgement, Verdict, judge
from fleetagent.adapters.model.waits import asked_wait_seconds
from fleetagent.domain.model import ModelRequest, Reply

SAID_CHARS = 300
ID_CHARS = 100
NO_ANSWER = {
    Because.TIMEOUT: Judgement(Verdict.RETRY, "Timeout"),
    Because.CONNECTION: Judgement(Verdict.RETRY, "Unreachable"),
    Because.SIZE: Judgement(Verdict.RETRY, "Endless"),
    Because.CERTIFICATE: Judgement(Verdict.HALT, "CertificateRefused"),
    Because.URL: Judgement(Verdict.HALT, "BadURL"),
}


@dataclass(frozen=True, slots=True)
class Setback:
    """One call that gave no usable reply: what was decided, what the other side said, what it asked us to wait."""

    judgement: Judgement
    said: str
    status: int | None = None
    wait_seconds: float | None = None
    reply: Reply | None = None
    """What came all the same, and was paid for."""


def read(answer: Answer | NoAnswer, request: ModelRequest, hide: Callable[[str], str], epoch: float) -> Reply | Setback:
    """The reply in this answer, or what is wrong with it; no secret is left in either's words about it."""

    def say(text: str) -> str:
        return shortened(hide(text), SAID_CHARS)

    if isinstance(answer, NoAnswer):
        return Setback(NO_ANSWER[answer.because], say(answer.message))
    fault = fault_in(answer)
    if fault:
        wait = asked_wait_seconds(answer.headers, fault.message, epoch)
        return Setback(judge(fault), say(f"{fault.status}: {fault.message or 'no message'}"), fault.status, wait)
    reply = reply_in(answer.json, shown_id(answer, hide))
    if reply is None:
        return Setback(Judgement(Verdict.RETRY, _useless(answer)), say(answer.text) or "an empty body", answer.status)
    if request.may_call_tools and not reply.calls:
        reply = with_calls_from_text(reply, request.tools)
    judgement = _judge(reply)
    return Setback(judgement, say(answer.text), answer.status, reply=reply) if judgement else reply


def shown_id(answer: Answer, hide: Callable[[str], str]) -> str | None:
    """The server's own name for this request, as far as it can be shown: a header may hold anything."""
    return shortened(hide(answer.request_id), ID_CHARS) if answer.request_id else None


def _useless(answer: Answer) -> str:
    if answer.json is not None:
        return "NoChoices"
    return "WebPage" if answer.text.lstrip()[:1] == "<" else "NotJSON"


def _judge(reply: Reply) -> Judgement | None:
    """What is wrong with a reply that came without an error, or None."""
    if reply.finish_reason == "content_filter":
        return Judgement(Verdict.HALT, "ContentFiltered")
    if reply.finish_reason == "model_context_window_exceeded":
        return Judgement(Verdict.SHRINK, "PromptTooLong")
    return Judgement(Verdict.RETRY, "Empty") if is_empty(reply) else None
