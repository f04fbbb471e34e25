"""Protocol and template: late system messages, odd finish reasons, missing choices or usage, silence."""

from typing import Any

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.replies import Answer, Hang, completion, nested_error

GATEWAY_TIMEOUT = "<html><body><h1>504 Gateway Time-out</h1>\nThe server didn't respond in time.\n</body></html>\n"


def _template(status: int, message: str) -> Answer:
    kind = "BadRequestError" if status == 400 else "server_error"
    return nested_error(status, message, kind=kind, code=status)


def _no_user(status: int) -> Answer:
    return _template(status, "No user query found in messages.")


def _late_system(status: int) -> Answer:
    return _template(status, "System message must be at the beginning.")


def _usual(moment: Moment) -> dict[str, Any]:
    return completion(moment.reply, model=moment.request.model, usage=moment.usage)


def _choices(moment: Moment, choices: object) -> Answer:
    return Answer(200, _usual(moment) | {"choices": choices})


def _error_in_band(_: Moment) -> Answer:
    error = {"message": "Provider returned error", "type": "server_error", "param": None, "code": 502}
    return Answer(200, {"error": error})


def _no_usage(moment: Moment) -> Answer:
    body = _usual(moment)
    del body["usage"]
    return Answer(200, body)


def _usage(moment: Moment, usage: object) -> Answer:
    return Answer(200, _usual(moment) | {"usage": usage})


ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}

FAULTS = (
    Fault("A30", "vLLM", lambda _: _no_user(400)),
    Fault("A30/llama.cpp", "llama.cpp", lambda _: _no_user(500)),
    Fault("A31", "vLLM", lambda _: _late_system(400)),
    Fault("A31/llama.cpp", "llama.cpp", lambda _: _late_system(500)),
    Fault("A36", "vLLM", lambda moment: moment.completed({"content": "", "tool_calls": []}, "tool_calls")),
    Fault("A36/stop", "others", lambda moment: moment.calling_with(finish_reason="stop")),
    Fault("A36/length", "vLLM", lambda moment: moment.calling_with(finish_reason="length")),
    Fault("A38", "others", lambda moment: _choices(moment, None)),
    Fault("A38/empty", "Azure", lambda moment: _choices(moment, [])),
    Fault("A38/error", "others", _error_in_band),
    Fault("A39", "others", _no_usage),
    Fault("A39/null", "others", lambda moment: _usage(moment, None)),
    Fault("A39/zero", "others", lambda moment: _usage(moment, ZEROS)),
    Fault("A42", "slow server", lambda _: Hang()),
    Fault("A42/gateway", "ingress", lambda _: Answer(504, GATEWAY_TIMEOUT, {"content-type": "text/html"})),
)
