"""Context overflow, as each server words it; the numbers are those of the request."""

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.refusals import overflow
from fleetagent.sim.model.replies import Answer, flat_error, nested_error, string_error

OLDER_OLLAMA_WINDOW = 2048
LARGEST_PROMPT_TOLD = 365_407
CHARS_PER_TOKEN = 4
SHORTEN = "Please reduce the length of the messages or completion."


def _prompt(moment: Moment) -> int:
    """A count above the window, whatever the prompt really has."""
    return max(moment.usage.prompt, moment.context_window + 1)


def _room(moment: Moment) -> int:
    return max(moment.context_window - moment.usage.prompt, 0)


def _wanted(moment: Moment) -> int:
    """A room for the answer that is too large, whatever was really asked for."""
    return max(moment.request.max_tokens or 0, _room(moment) + 1)


def _alone(moment: Moment) -> str:
    return (
        f"This model's maximum context length is {moment.context_window} tokens. However, your messages resulted in"
        f" {_prompt(moment)} tokens"
    )


def _together(moment: Moment) -> str:
    prompt, wanted = moment.usage.prompt, _wanted(moment)
    return (
        f"This model's maximum context length is {moment.context_window} tokens. However, you requested"
        f" {prompt + wanted} tokens ({prompt} in the messages, {wanted} in the completion). {SHORTEN}"
    )


def _openai(moment: Moment, message: str) -> Answer:
    del moment
    code = "context_length_exceeded"
    return nested_error(400, message, kind="invalid_request_error", param="messages", code=code)


def _with_functions(moment: Moment) -> Answer:
    schemas = _prompt(moment) // 5
    split = f" ({_prompt(moment) - schemas} in the messages, {schemas} in the functions)"
    return _openai(moment, f"{_alone(moment)}{split}. Please reduce the length of the messages or functions.")


def _newer_openai(moment: Moment) -> Answer:
    return _openai(
        moment, "Your input exceeds the context window of this model. Please adjust your input and try again."
    )


def _deepseek(moment: Moment) -> Answer:
    return nested_error(400, _together(moment), kind="invalid_request_error", code="invalid_request_error")


def _vllm(moment: Moment) -> Answer:
    largest = max(moment.context_window - _wanted(moment), 0)
    message = (
        f"You passed {largest + 1} input tokens and requested {_wanted(moment)} output tokens. However, the model's"
        f" context length is only {moment.context_window} tokens, resulting in a maximum input length of {largest}"
        " tokens. Please reduce the length of the input prompt."
    )
    return nested_error(400, message, kind="BadRequestError", param="input_tokens", code=400)


def _vllm_characters(moment: Moment) -> Answer:
    largest = max(moment.context_window - _wanted(moment), 0)
    message = (
        f"You passed {_prompt(moment) * CHARS_PER_TOKEN} input characters and requested {_wanted(moment)} output"
        f" tokens. However, the model's context length is only {moment.context_window} tokens, resulting in a maximum"
        f" input length of {largest} tokens (at most {largest * CHARS_PER_TOKEN} characters). Please reduce the"
        " length of the input prompt."
    )
    return nested_error(400, message, kind="BadRequestError", param="input_text", code=400)


def _llama_cpp(moment: Moment, status: int = 400, code: int = 400) -> Answer:
    error = {
        "message": f"the request ({_prompt(moment)} tokens) exceeds the available context size"
        f" ({moment.context_window} tokens), try increasing it",
        "type": "exceed_context_size_error",
        "code": code,
        "n_prompt_tokens": _prompt(moment),
        "n_ctx": moment.context_window,
    }
    return Answer(status, {"error": error})


def _llama_larger(moment: Moment) -> Answer:
    message = f"request ({_prompt(moment)} tokens) is larger than the max context size ({moment.context_window} tokens)"
    return nested_error(500, message, kind="server_error", code=500)


def _llama_pool(prefix: str = "", status: int = 500) -> Answer:
    return nested_error(status, f"{prefix}Context size has been exceeded.", kind="server_error", code=500)


def _llama_pool_stream(_: Moment) -> Answer:
    event = '{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}'
    return Answer(200, f"data: {event}\n\n", {"content-type": "text/event-stream"})


def _sglang(moment: Moment) -> str:
    return (
        f"The input ({_prompt(moment)} tokens) is longer than the model's context length"
        f" ({moment.context_window} tokens)."
    )


def _sglang_together(moment: Moment) -> Answer:
    prompt, wanted = moment.usage.prompt, _wanted(moment)
    return flat_error(
        400,
        f"Requested token count exceeds the model's maximum context length of {moment.context_window} tokens. You"
        f" requested a total of {prompt + wanted} tokens: {prompt} tokens from the input messages and {wanted} tokens"
        " for the completion. Please reduce the number of tokens in the input messages or the completion to fit within"
        " the limit.",
    )


def _clipped(moment: Moment, window: int) -> Answer:
    usage = {**moment.usual["usage"], "prompt_tokens": min(moment.usage.prompt, window)}
    usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
    return Answer(200, moment.usual | {"usage": usage})


def _litellm(moment: Moment, prefix: str) -> Answer:
    return nested_error(400, f"{prefix}{_alone(moment)}. {SHORTEN}", kind="None", param="None", code="400")


def _accepted(moment: Moment) -> Answer:
    usage = {**moment.usual["usage"], "prompt_tokens": moment.context_window + 1_000}
    return Answer(200, moment.usual | {"usage": usage})


def _window_exceeded(moment: Moment) -> Answer:
    return moment.completed({"content": "The fleet is"}, "model_context_window_exceeded")


FAULTS = (
    Fault(
        "A1", "OpenAI", "the prompt is longer than the window", lambda m: overflow(_prompt(m), None, m.context_window)
    ),
    Fault("A1/functions", "OpenAI", "the same, split into messages and functions", _with_functions),
    Fault("A1/newer", "OpenAI", "the same without numbers", _newer_openai),
    Fault("A2", "OpenAI", "prompt and answer together are too long", lambda m: _openai(m, _together(m))),
    Fault("A2/deepseek", "DeepSeek", "the same with other fields", _deepseek),
    Fault("A3", "vLLM, older", "the same in a flat body", lambda m: flat_error(400, _together(m))),
    Fault("A3/alone", "vLLM, older", "the prompt alone, flat", lambda m: flat_error(400, f"{_alone(m)}. {SHORTEN}")),
    Fault("A4", "vLLM 0.15", "it stops counting one above the largest input", _vllm),
    Fault("A4/characters", "vLLM 0.15", "refused by its characters, before it was counted", _vllm_characters),
    Fault(
        "A5",
        "vLLM",
        "the window is full and no room is left",
        lambda _: flat_error(400, "max_tokens must be at least 1, got -186."),
    ),
    Fault("A6", "llama.cpp", "longer than a slot, with both numbers", _llama_cpp),
    Fault("A6/500", "llama.cpp, first builds", "the same with code 500 in the body", lambda m: _llama_cpp(m, 400, 500)),
    Fault("A6/status", "llama.cpp, one build", "the same with another status", lambda m: _llama_cpp(m, 500, 400)),
    Fault("A6/larger", "llama.cpp", "other words, no type", _llama_larger),
    Fault("A7", "llama.cpp", "other slots filled the cache meanwhile", lambda _: _llama_pool()),
    Fault("A7/decode", "llama.cpp", "the same with a prefix", lambda _: _llama_pool("decode() failed: ")),
    Fault("A7/in-band", "llama.cpp", "the same inside a 200", lambda _: _llama_pool(status=200)),
    Fault("A7/stream", "llama.cpp", "the same as an event of a stream", _llama_pool_stream),
    Fault("A8", "SGLang", "the input is longer than the context", lambda m: flat_error(400, _sglang(m))),
    Fault("A8/type", "SGLang", "the same, type BadRequest", lambda m: flat_error(400, _sglang(m), kind="BadRequest")),
    Fault("A9", "SGLang", "input and answer together are too long", _sglang_together),
    Fault("A10", "Ollama", "cut in front without a word; usage sticks", lambda m: _clipped(m, OLDER_OLLAMA_WINDOW)),
    Fault(
        "A10/half",
        "Ollama, some builds",
        "cut to half the window and two",
        lambda m: _clipped(m, OLDER_OLLAMA_WINDOW // 2 + 2),
    ),
    Fault(
        "A11",
        "Ollama",
        "refused in a string",
        lambda _: string_error(400, "input length exceeds the context length"),
    ),
    Fault(
        "A11/chat",
        "Ollama",
        "the same with both sizes",
        lambda m: string_error(
            400, f"the input length ({_prompt(m)} tokens) exceeds the context length ({m.context_window} tokens)"
        ),
    ),
    Fault(
        "A12",
        "LiteLLM",
        "overflow upstream, mapped",
        lambda m: _litellm(m, "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - "),
    ),
    Fault(
        "A12/wrapped",
        "LiteLLM",
        "overflow upstream, not mapped",
        lambda m: _litellm(m, "litellm.BadRequestError: OpenAIException - "),
    ),
    Fault(
        "A12/unmapped",
        "LiteLLM",
        "overflow upstream in other words",
        lambda _: nested_error(
            400,
            f"litellm.BadRequestError: The prompt is too long: {LARGEST_PROMPT_TOLD}",
            kind="None",
            param="None",
            code="400",
        ),
    ),
    Fault("A13", "z.ai", "more tokens than the window, and answered", _accepted),
    Fault("A13/finish", "z.ai", "the answer stops at the window", _window_exceeded),
)
