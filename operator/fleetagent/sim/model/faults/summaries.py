"""What comes when a summary is asked for (B15); any other request has its usual answer."""

from collections.abc import Callable

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.faults.reasoning import THOUGHTS
from fleetagent.sim.model.refusals import overflow
from fleetagent.sim.model.replies import Answer, Hang, Served, assistant, nested_error


def _asked(answer: Callable[[Moment], Served]) -> Callable[[Moment], Served | None]:
    return lambda moment: answer(moment) if moment.is_for_summary else None


def _call(moment: Moment) -> Answer:
    name = moment.request.offered[0] if moment.request.offered else "get_fleet"
    reply = assistant(None, (name, {}))
    return moment.completed(reply.message, reply.finish_reason)


def _summary(name: str, what: str, answer: Callable[[Moment], Served]) -> Fault:
    return Fault(f"B15/{name}", "any", f"a summary that is {what}", _asked(answer))


REFUSAL = "I'm sorry, but I can't help with that."
CUT = "## What happened\n- Launched 1 machine and then"

FAULTS = (
    _summary("empty", "empty", lambda m: m.completed({"content": ""})),
    _summary("reasoning", "thoughts alone", lambda m: m.completed({"content": None, "reasoning_content": THOUGHTS})),
    _summary("thinking", "thoughts in the text", lambda m: m.completed({"content": f"<think>{THOUGHTS}"}, "length")),
    _summary("call", "a tool call", _call),
    _summary("length", "cut off", lambda m: m.completed({"content": CUT}, "length")),
    _summary("overflow", "refused for its length", lambda m: overflow(m.context_window + 1, None, m.context_window)),
    _summary("500", "a failure", lambda _: nested_error(500, "Internal Server Error", kind="server_error", code=500)),
    _summary("timeout", "never there", lambda _: Hang()),
    _summary("refusal", "a refusal", lambda m: m.completed({"content": REFUSAL})),
    _summary("ok", "just OK", lambda m: m.completed({"content": "OK"})),
    _summary("longer", "longer than what it sums up", lambda m: m.completed({"content": "word " * 20_000})),
)
