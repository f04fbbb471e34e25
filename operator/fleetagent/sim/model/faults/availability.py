"""Rate, quota, availability, key, model name and URL."""

import math

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.refusals import unknown_model, wrong_key
from fleetagent.sim.model.replies import Answer, nested_error


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


def _quota(_: Moment) -> Answer:
    message = "You exceeded your current quota, please check your plan and billing details."
    return nested_error(429, message, kind="insufficient_quota", code="insufficient_quota")


def _budget(_: Moment) -> Answer:
    message = "Budget has been exceeded! Current cost: 10.02, Max budget: 10.0"
    return nested_error(429, message, kind="budget_exceeded", code="429")


def _loading(_: Moment) -> Answer:
    return nested_error(503, "Loading model", kind="unavailable_error", code=503)


def _page(status: int, title: str) -> Answer:
    body = f"<html>\r\n<head><title>{status} {title}</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
    return Answer(status, body, {"content-type": "text/html"})


def _llama_key(_: Moment) -> Answer:
    return nested_error(401, "Invalid API Key", kind="authentication_error", code=401)


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
    Fault("A14", "OpenAI", _rate),
    Fault("A14/no-header", "OpenAI", _rate_without_header),
    Fault("A16", "OpenAI", _quota),
    Fault("A16/litellm", "LiteLLM", _budget),
    Fault("A18", "llama.cpp", _loading),
    Fault("A19", "ingress", lambda _: _page(503, "Service Temporarily Unavailable")),
    Fault("A19/502", "ingress", lambda _: _page(502, "Bad Gateway")),
    Fault("A19/504", "ingress", lambda _: _page(504, "Gateway Time-out")),
    Fault("A19b", "OpenAI", lambda _: wrong_key()),
    Fault("A19b/vllm", "vLLM", lambda _: Answer(401, {"error": "Unauthorized"})),
    Fault("A19b/llama.cpp", "llama.cpp", _llama_key),
    Fault("A19c", "vLLM", lambda moment: unknown_model(moment.request.model)),
    Fault("A19c/route", "FastAPI", lambda _: Answer(404, {"detail": "Not Found"})),
)
