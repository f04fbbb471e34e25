"""Characters that a database, a JSON writer or a page can't take, in every field that a server sends."""

import json

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.replies import Answer, nested_error, tool_call

ODD = "\x00 \ud800 \udfff\ud83d \ufffe \x1b[31m \u202e"
HUGE_CHARS = 10 * 1024 * 1024


def _said(moment: Moment, text: str) -> Answer:
    """The usual reply, its words with these beside them."""
    content = f"{moment.reply.message.get('content') or ''}{text}"
    return moment.completed({**moment.reply.message, "content": content}, moment.reply.finish_reason)


def _thought(moment: Moment) -> Answer:
    return moment.completed({**moment.reply.message, "reasoning": ODD}, moment.reply.finish_reason)


def _argument(moment: Moment, text: str) -> Answer:
    """One more argument, which no tool knows, in each call."""
    return moment.with_arguments(lambda given: json.dumps({**json.loads(given), "note": text}))


def _raw_argument(moment: Moment) -> Answer:
    """The characters themselves where JSON wants them escaped."""
    return moment.with_arguments(lambda _: f'{{"reason": "{ODD}"}}')


def _name(moment: Moment) -> Answer:
    return moment.with_calls([tool_call(f"get_fleet{ODD}", "{}")])


def _bytes(moment: Moment) -> Answer:
    """Bytes that are no UTF-8, in the middle of a good body."""
    whole = json.dumps(moment.body({**moment.reply.message, "content": "The fleet @@ stands."}, "stop"))
    return Answer(200, whole.encode().replace(b"@@", b"\xff\xfe\x80"), {"content-type": "application/json"})


def _error_bytes(_: Moment) -> Answer:
    return Answer(500, b"\xff\xfe internal \x00 error", {"content-type": "text/plain"})


FAULTS = (
    Fault("A43", "any", "lone surrogates and control bytes in the words", lambda m: _said(m, ODD)),
    Fault("A43/reasoning", "any", "the same in the thoughts", _thought),
    Fault("A43/arguments", "any", "the same in arguments", lambda m: _argument(m, ODD)),
    Fault("A43/raw", "any", "the same in arguments, not escaped", _raw_argument),
    Fault("A43/name", "any", "the same in a tool's name", _name),
    Fault("A43/error", "any", "the same in an error", lambda _: nested_error(500, f"boom {ODD}", kind="server_error")),
    Fault("B49/bytes", "any", "bytes that are no UTF-8", _bytes),
    Fault("B49/error-bytes", "any", "the same in an error", _error_bytes),
    Fault("B49/huge", "any", "ten megabytes of words", lambda m: _said(m, "x" * HUGE_CHARS)),
    Fault(
        "B49/huge-error",
        "any",
        "ten megabytes of error",
        lambda _: nested_error(500, "x" * HUGE_CHARS, kind="server_error"),
    ),
)
