"""Context overflow, as each server words it; the numbers are those of the request."""

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.refusals import overflow
from fleetagent.sim.model.replies import Answer, nested_error


def _prompt_too_long(moment: Moment) -> Answer:
    return overflow(max(moment.usage.prompt, moment.context_window + 1), None, moment.context_window)


def _with_completion(moment: Moment) -> Answer:
    """The prompt fits, so the room for the answer is what is too large."""
    return overflow(moment.usage.prompt, max(moment.request.max_tokens or 0, _room(moment) + 1), moment.context_window)


def _vllm(moment: Moment) -> Answer:
    wanted = max(moment.request.max_tokens or 0, _room(moment) + 1)
    largest = max(moment.context_window - wanted, 0)
    message = (
        f"You passed {largest + 1} input tokens and requested {wanted} output tokens. However, the model's context"
        f" length is only {moment.context_window} tokens, resulting in a maximum input length of {largest} tokens."
        " Please reduce the length of the input prompt."
    )
    return nested_error(400, message, kind="BadRequestError", param="input_tokens", code=400)


def _llama_cpp(moment: Moment) -> Answer:
    prompt = max(moment.usage.prompt, moment.context_window + 1)
    error = {
        "message": f"the request ({prompt} tokens) exceeds the available context size ({moment.context_window} tokens),"
        " try increasing it",
        "type": "exceed_context_size_error",
        "code": 400,
        "n_prompt_tokens": prompt,
        "n_ctx": moment.context_window,
    }
    return Answer(400, {"error": error})


def _room(moment: Moment) -> int:
    return max(moment.context_window - moment.usage.prompt, 0)


FAULTS = (
    Fault("A1", "OpenAI", _prompt_too_long),
    Fault("A2", "OpenAI", _with_completion),
    Fault("A4", "vLLM", _vllm),
    Fault("A6", "llama.cpp", _llama_cpp),
)
