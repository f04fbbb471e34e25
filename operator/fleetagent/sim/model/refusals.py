"""Answers to requests that this server refuses by itself: key, model name, violations, too many tokens."""

from collections.abc import Sequence

from fleetagent.sim.model.conversation import ChatRequest, Violation
from fleetagent.sim.model.personality import PERSONALITIES, TEMPLATE_RULES, Personality
from fleetagent.sim.model.replies import Answer, nested_error

BAD_REQUEST = 400
STRICT = PERSONALITIES["strict"]


def wrong_key() -> Answer:
    """As OpenAI says it; the key that was sent is not repeated."""
    message = "Incorrect API key provided."
    return nested_error(401, message, kind="invalid_request_error", code="invalid_api_key")


def wrong_key_llama_cpp() -> Answer:
    """As llama.cpp says it."""
    return nested_error(401, "Invalid API Key", kind="authentication_error", code=401)


def unknown_model(name: str) -> Answer:
    """As vLLM says it."""
    message = f"The model `{name}` does not exist."
    return nested_error(404, message, kind="NotFoundError", param="model", code=404)


def violated(violations: Sequence[Violation], personality: Personality = STRICT) -> Answer:
    """Name the first rule in `code` and in the message, and count the others."""
    first, others = violations[0], len(violations) - 1
    more = f" (and {others} more)" if others else ""
    message = f"{first.sentence} [rule {first.rule}]{more}"
    if first.rule in TEMPLATE_RULES and personality.template_status != BAD_REQUEST:
        return nested_error(personality.template_status, message, kind="server_error", code=personality.template_status)
    return nested_error(400, message, kind="invalid_request_error", param=first.param, code=first.rule)


def overflow(prompt_tokens: int, max_tokens: int | None, context_window: int) -> Answer:
    """The prompt alone is too long, or only together with the room asked for the answer: two different texts."""
    limit = f"This model's maximum context length is {context_window} tokens. However, "
    if prompt_tokens >= context_window or max_tokens is None:
        message = f"{limit}your messages resulted in {prompt_tokens} tokens. Please reduce the length of the messages."
    else:
        total = prompt_tokens + max_tokens
        split = f"({prompt_tokens} in the messages, {max_tokens} in the completion)"
        message = (
            f"{limit}you requested {total} tokens {split}. Please reduce the length of the messages or completion."
        )
    code = "context_length_exceeded"
    return nested_error(400, message, kind="invalid_request_error", param="messages", code=code)


def overflows(request: ChatRequest, prompt_tokens: int, context_window: int) -> bool:
    """Whether prompt and answer do not fit; without `max_tokens` there must be room for one token."""
    return prompt_tokens + (request.max_tokens or 1) > context_window
