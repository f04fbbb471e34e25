"""Finish reasons that contradict, content filters, missing choices and counts, answers that never end."""

import json
import math
from typing import Any

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.replies import Answer, CutShort, Hang, Trickle, nested_error

GATEWAY_TIMEOUT = "<html><body><h1>504 Gateway Time-out</h1>\nThe server didn't respond in time.\n</body></html>\n"
LOGIN = "<!doctype html><html><head><title>Sign in</title></head><body><form>…</form></body></html>"
EVENTS = {"content-type": "text/event-stream"}
SLOW_SECONDS = 30.0
ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
ABSURD_TOKENS = 10**9


def _finished(moment: Moment, reason: str | None) -> Answer:
    """The calls as they are, with another reason for their end."""
    return moment.with_calls(moment.calls, reason)


def _old_form(moment: Moment) -> Answer:
    return moment.completed({"content": None, "function_call": moment.calls[0]["function"]}, "function_call")


def _choices(moment: Moment, choices: object, **more: Any) -> Answer:
    return Answer(200, moment.usual | {"choices": choices} | more)


def _error_in_band(_: Moment) -> Answer:
    error = {"message": "Provider returned error", "type": "server_error", "param": None, "code": 502}
    return Answer(200, {"error": error})


def _error_in_choice(moment: Moment) -> Answer:
    error = {"message": "Provider returned error", "code": 502}
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "error", "error": error}
    return _choices(moment, [choice])


def _filtered(_: Moment) -> Answer:
    message = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
    return nested_error(400, message, kind="", param="prompt", code="content_filter")


def _policy(_: Moment) -> Answer:
    message = "content_policy_violation: Your request was rejected by our safety system."
    return nested_error(400, message, kind="invalid_request_error", code=400)


def _azure_chunk(moment: Moment) -> Answer:
    return _choices(moment, [], prompt_filter_results=[{"prompt_index": 0, "content_filter_results": {}}])


def _usage(moment: Moment, usage: object) -> Answer:
    return Answer(200, moment.usual | {"usage": usage})


def _without_usage(moment: Moment, **more: Any) -> Answer:
    return Answer(200, {name: value for name, value in moment.usual.items() if name != "usage"} | more)


def _usage_in_choice(moment: Moment) -> Answer:
    [choice] = moment.usual["choices"]
    return _without_usage(moment, choices=[{**choice, "usage": moment.usage.as_json()}])


def _counted(moment: Moment, **changes: Any) -> Answer:
    return _usage(moment, {**moment.usage.as_json(), **changes})


def _as_texts(moment: Moment) -> Answer:
    return _usage(moment, {name: str(value) for name, value in moment.usage.as_json().items()})


def _timings(moment: Moment) -> Answer:
    timings = {"cache_n": moment.usage.cached, "prompt_n": moment.usage.prompt - moment.usage.cached}
    return Answer(200, moment.usual | {"timings": timings})


def _stream(moment: Moment, last: str = "") -> Answer:
    """Events of a stream that nobody asked for; without an end."""
    start = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "The fleet"}, "finish_reason": None}]}
    del moment
    return Answer(200, f"data: {json.dumps(start)}\n\n{last}", EVENTS)


FAULTS = (
    Fault(
        "A36",
        "vLLM",
        "calls announced, none there",
        lambda m: m.completed({"content": "", "tool_calls": []}, "tool_calls"),
    ),
    Fault("A36/stop", "others", "calls, and `stop`", lambda m: _finished(m, "stop")),
    Fault("A36/length", "vLLM", "whole calls, and `length`", lambda m: _finished(m, "length")),
    Fault("A36/filter", "Azure", "calls, and `content_filter`", lambda m: _finished(m, "content_filter")),
    Fault("A36/null", "others", "calls, and no reason", lambda m: _finished(m, None)),
    Fault("A36/end", "others", "calls, and `end`", lambda m: _finished(m, "end")),
    Fault(
        "A36/window", "z.ai", "calls, and the window exceeded", lambda m: _finished(m, "model_context_window_exceeded")
    ),
    Fault("A36/function", "others", "a call in the old form", _old_form),
    Fault(
        "A37", "Azure", "the filter ends the answer", lambda m: m.completed({"content": "The fleet"}, "content_filter")
    ),
    Fault("A37/refused", "Azure", "the filter refuses the prompt", _filtered),
    Fault("A37/policy", "OpenAI", "a policy refuses the prompt", _policy),
    Fault("A38", "others", "choices are null", lambda m: _choices(m, None)),
    Fault("A38/empty", "Azure", "choices are empty", lambda m: _choices(m, [])),
    Fault("A38/azure", "Azure", "the filter's own chunk", _azure_chunk),
    Fault("A38/error", "others", "an error inside a 200", _error_in_band),
    Fault("A38/choice", "OpenRouter", "an error inside a choice", _error_in_choice),
    Fault("A39", "others", "no usage", _without_usage),
    Fault("A39/null", "others", "usage is null", lambda m: _usage(m, None)),
    Fault("A39/zero", "others", "usage is zero", lambda m: _usage(m, ZEROS)),
    Fault("A39/choice", "Moonshot", "usage stands in the choice", _usage_in_choice),
    Fault("A40", "vLLM", "cached tokens are null", lambda m: _counted(m, prompt_tokens_details=None)),
    Fault("A40/none", "vLLM", "cached tokens are left out", lambda m: _counted(m, prompt_tokens_details={})),
    Fault(
        "A40/more",
        "vLLM, early V1",
        "more cached than there are",
        lambda m: _counted(m, prompt_tokens_details={"cached_tokens": m.usage.prompt * 2}),
    ),
    Fault("A40/timings", "llama.cpp", "the same number once more, elsewhere", _timings),
    Fault("A41", "any", "half a body, then the connection ends", lambda m: CutShort(Answer(200, m.usual))),
    Fault("A41/stream", "any", "a stream without an end", _stream),
    Fault(
        "A41/error",
        "any",
        "a stream that ends with an error",
        lambda m: _stream(m, 'data: {"error":{"message":"boom"}}\n\n'),
    ),
    Fault("A42", "slow server", "accepted, and never answered", lambda _: Hang()),
    Fault(
        "A42/gateway",
        "ingress",
        "the ingress gives up first",
        lambda _: Answer(504, GATEWAY_TIMEOUT, {"content-type": "text/html"}),
    ),
    Fault("B34/total", "any", "only the total", lambda m: _usage(m, {"total_tokens": m.usage.prompt})),
    Fault("B34/texts", "any", "counts as texts", _as_texts),
    Fault("B34/negative", "any", "counts below zero", lambda m: _counted(m, prompt_tokens=-1, completion_tokens=-1)),
    Fault("B34/absurd", "any", "a billion tokens", lambda m: _counted(m, prompt_tokens=ABSURD_TOKENS)),
    Fault("B35/silence", "any", "headers, then silence", lambda m: Trickle(Answer(200, m.usual), math.inf)),
    Fault("B35/slow", "any", "a byte every 30 seconds", lambda m: Trickle(Answer(200, m.usual), SLOW_SECONDS)),
    Fault("B36/message", "any", "the message is null", lambda m: _choices(m, [{"index": 0, "message": None}])),
    Fault("B36/login", "proxy", "a login page as a 200", lambda _: Answer(200, LOGIN, {"content-type": "text/html"})),
    Fault("B36/truncated", "any", "half a JSON as a 200", lambda m: Answer(200, json.dumps(m.usual)[:-80])),
    Fault("B36/empty", "any", "an empty 200", lambda _: Answer(200, "")),
    Fault("B36/finish", "any", "an unknown finish reason", lambda m: m.completed(m.reply.message, "eos")),
)
