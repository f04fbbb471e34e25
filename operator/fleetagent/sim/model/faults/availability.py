"""Rate, quota, availability, key, model name and URL."""

import math
from email.utils import formatdate
from time import time

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.refusals import unknown_model, wrong_key, wrong_key_llama_cpp
from fleetagent.sim.model.replies import Answer, Dropped, nested_error, string_error

AN_HOUR = 3600


def _rate(moment: Moment) -> Answer:
    seconds = moment.retry_after_seconds
    message = (
        f"Rate limit reached for {moment.request.model} on tokens per min (TPM): Limit 30000, Used 29000, "
        f"Requested {moment.usage.prompt}. Please try again in {seconds:g}s."
    )
    answer = nested_error(429, message, kind="tokens", code="rate_limit_exceeded")
    return Answer(429, answer.body, _limits(seconds) | _patience(seconds))


def _rate_without_header(moment: Moment) -> Answer:
    answer = _rate(moment)
    return Answer(429, answer.body, _limits(moment.retry_after_seconds))


def _rate_until(moment: Moment, retry_after: str) -> Answer:
    del moment
    answer = nested_error(429, "Rate limit reached", kind="requests", code="rate_limit_exceeded")
    return Answer(429, answer.body, {"retry-after": retry_after})


def _a_date(moment: Moment) -> Answer:
    return _rate_until(moment, formatdate(time() + math.ceil(moment.retry_after_seconds), usegmt=True))


def _azure(value: str) -> Answer:
    names = ("limit-requests", "remaining-requests", "limit-tokens", "remaining-tokens")
    answer = nested_error(429, "Requests to this endpoint have exceeded the call rate limit", kind="", code="429")
    return Answer(429, answer.body, {f"x-ratelimit-{name}": value for name in names})


def _quota(_: Moment) -> Answer:
    message = "You exceeded your current quota, please check your plan and billing details."
    return nested_error(429, message, kind="insufficient_quota", code="insufficient_quota")


def _budget(_: Moment) -> Answer:
    message = "Budget has been exceeded! Current cost: 10.02, Max budget: 10.0"
    return nested_error(429, message, kind="budget_exceeded", code="429")


def _no_deployment(moment: Moment) -> Answer:
    message = f"No deployments available for selected model, Try again in {moment.retry_after_seconds:g} seconds."
    answer = _litellm(429, message, "429")
    return Answer(429, answer.body, _patience(moment.retry_after_seconds))


def _litellm(status: int, message: str, code: str, kind: str = "None") -> Answer:
    return nested_error(status, message, kind=kind, param="None", code=code)


def _page(status: int, title: str) -> Answer:
    body = f"<html>\r\n<head><title>{status} {title}</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
    return Answer(status, body, {"content-type": "text/html"})


def _router(_: Moment) -> Answer:
    return nested_error(503, "No available workers", kind="service_unavailable", code="no_available_workers")


def _echo(moment: Moment) -> Answer:
    """The whole key, in words, as LiteLLM's proxy repeats it."""
    message = f"Authentication Error, Invalid proxy server token passed. Received API Key = {moment.key}"
    return _litellm(401, message, "401", "token_not_found_in_db")


def _key_of(kind: str, message: str, status: int = 401) -> Answer:
    return _litellm(status, message, str(status), kind)


def _limits(seconds: float) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "1000",
        "x-ratelimit-reset-tokens": f"{seconds:g}s",
    }


def _patience(seconds: float) -> dict[str, str]:
    return {"retry-after": str(math.ceil(seconds)), "retry-after-ms": str(math.ceil(seconds * 1000))}


FAULTS = (
    Fault("A14", "OpenAI", "too many tokens a minute", _rate),
    Fault("A14/no-header", "OpenAI", "the same, with the wait in words alone", _rate_without_header),
    Fault("A15", "Azure", "headers that say -1", lambda _: _azure("-1")),
    Fault("A15/zero", "Azure", "headers that say 0", lambda _: _azure("0")),
    Fault("A16", "OpenAI", "the quota is spent", _quota),
    Fault("A16/litellm", "LiteLLM", "the budget is spent", _budget),
    Fault("A17", "LiteLLM", "no deployment while they cool down", _no_deployment),
    Fault(
        "A17/unhealthy",
        "LiteLLM",
        "no healthy deployment, as a 400",
        lambda m: _litellm(400, f"There are no healthy deployments for this model: {m.request.model}", "400"),
    ),
    Fault(
        "A17/connection",
        "LiteLLM",
        "the provider behind it is down",
        lambda _: _litellm(500, "litellm.InternalServerError: OpenAIException - Connection error.", "500"),
    ),
    Fault(
        "A17/upstream",
        "LiteLLM",
        "the provider's own 429, its header lost",
        lambda _: _litellm(429, "litellm.RateLimitError: OpenAIException - Rate limit reached", "429"),
    ),
    Fault(
        "A18",
        "llama.cpp",
        "the model is being loaded",
        lambda _: nested_error(503, "Loading model", kind="unavailable_error", code=503),
    ),
    Fault(
        "A18/newer",
        "llama.cpp",
        "the same with other fields",
        lambda _: nested_error(503, "Loading model", kind="service_unavailable_error"),
    ),
    Fault("A19", "ingress", "nobody behind it", lambda _: _page(503, "Service Temporarily Unavailable")),
    Fault("A19/502", "ingress", "nobody answers behind it", lambda _: _page(502, "Bad Gateway")),
    Fault("A19/504", "ingress", "it waited for too long", lambda _: _page(504, "Gateway Time-out")),
    Fault("A19/eof", "ingress", "the connection is closed without a word", lambda _: Dropped()),
    Fault("A19/router", "SGLang router", "no workers", _router),
    Fault("A19b", "OpenAI", "the key is wrong", lambda _: wrong_key()),
    Fault("A19b/vllm", "vLLM", "the key is wrong, in a string", lambda _: string_error(401, "Unauthorized")),
    Fault("A19b/llama.cpp", "llama.cpp", "the key is wrong", lambda _: wrong_key_llama_cpp()),
    Fault("A19b/litellm", "LiteLLM", "the key is not known; it is repeated whole", _echo),
    Fault(
        "A19b/expired",
        "LiteLLM",
        "the key has expired",
        lambda _: _key_of("expired_key", "Authentication Error - Expired Key. Key Expiry time 2026-01-01"),
    ),
    Fault(
        "A19b/model",
        "LiteLLM",
        "the key may not use this model",
        lambda _: _key_of("key_model_access_denied", "key not allowed to access model", 403),
    ),
    Fault("A19c", "vLLM", "the model's name is wrong", lambda moment: unknown_model(moment.request.model)),
    Fault("A19c/route", "FastAPI", "the URL is wrong", lambda _: Answer(404, {"detail": "Not Found"})),
    Fault("B35/hour", "any", "come back in an hour", lambda moment: _rate_until(moment, str(AN_HOUR))),
    Fault("B35/date", "any", "come back at a date", _a_date),
    Fault("B35/plain", "any", "429 in plain text, no header", lambda _: Answer(429, "Too Many Requests")),
    Fault(
        "B35/500",
        "any",
        "the same failure again and again",
        lambda _: nested_error(500, "Internal Server Error", kind="server_error", code=500),
    ),
    Fault(
        "B35/load",
        "llama.cpp",
        "a model that can't be loaded, for good",
        lambda _: nested_error(500, "failed to load model", kind="server_error", code=500),
    ),
)
