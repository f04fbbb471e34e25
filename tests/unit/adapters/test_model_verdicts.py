"""Which error verdict each server's way of failing gets; ids are rows of the catalogue of real servers' faults."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.adapters.model.answers import Answer
from fleetagent.adapters.model.faults import Fault, fault_in
from fleetagent.adapters.model.verdicts import judge

A1 = (
    "This model's maximum context length is 4097 tokens. However, your messages resulted in 5012 tokens (4900 in the "
    "messages, 112 in the functions). Please reduce the length of the messages or functions."
)
A2 = (
    "This model's maximum context length is 4097 tokens. However, you requested 5012 tokens (3012 in the messages, "
    "2000 in the completion). Please reduce the length of the messages or completion."
)
A4 = (
    "You passed 30721 input tokens and requested 2048 output tokens. However, the model's context length is only 32768 "
    "tokens, resulting in a maximum input length of 30720 tokens. Please reduce the length of the input prompt."
)
A8 = "The input (40012 tokens) is longer than the model's context length (32768 tokens)."
A9 = (
    "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 33000 "
    "tokens: 31000 tokens from the input messages and 2000 tokens for the completion."
)
A14 = "Rate limit reached for gpt on tokens per min (TPM): Limit 30000, Used 29000. Please try again in 41.724s."
A33 = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
A33_MIRROR = (
    "[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted', "
    "'input': 100}]"
)
HTML_503 = "<html><head><style>b {}</style></head><body><h1>503 Service Unavailable</h1></body></html>"


def nested(message: str, **fields: Any) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **fields}}


def flat(message: str, **fields: Any) -> Any:
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400, **fields}


def answered(status: int, body: Any, **headers: str) -> Answer:
    raw = body if isinstance(body, str) else json.dumps(body)
    return Answer(status, raw.encode(), {name.replace("_", "-"): value for name, value in headers.items()})


def fault(status: int, body: Any, **headers: str) -> Fault:
    found = fault_in(answered(status, body, **headers))
    assert found is not None
    return found


CASES = {
    "A1": (400, nested(A1, param="messages", code="context_length_exceeded"), "shrink", "PromptTooLong"),
    "A1 newer": (400, nested("Your input exceeds the context window of this model."), "shrink", "PromptTooLong"),
    "A2": (400, nested(A2, code="invalid_request_error"), "shrink", "PromptTooLong"),
    "A3": (400, flat(A2), "shrink", "PromptTooLong"),
    "A4": (400, nested(A4, type="BadRequestError", param="input_tokens", code=400), "shrink", "PromptTooLong"),
    "A4 characters": (
        400,
        nested("…", type="BadRequestError", param="input_text", code=400),
        "shrink",
        "PromptTooLong",
    ),
    "A5": (400, flat("max_tokens must be at least 1, got -186."), "shrink", "PromptTooLong"),
    "A6": (400, nested("…", type="exceed_context_size_error", code=400, n_ctx=4096), "shrink", "PromptTooLong"),
    "A6 with 500": (500, nested("…", type="exceed_context_size_error", code=500), "shrink", "PromptTooLong"),
    "A7": (500, nested("Context size has been exceeded.", type="server_error", code=500), "retry", "CacheFull"),
    "A7 in band": (200, nested("Context size has been exceeded.", type="server_error", code=500), "retry", "CacheFull"),
    "A8": (400, flat(A8), "shrink", "PromptTooLong"),
    "A9": (400, flat(A9), "shrink", "PromptTooLong"),
    "A11": (400, {"error": "the input length exceeds the context length"}, "shrink", "PromptTooLong"),
    "A12": (400, nested(f"litellm.BadRequestError: OpenAIException - {A1}", code="400"), "shrink", "PromptTooLong"),
    "A12 unmapped": (400, nested("The prompt is too long: 365407, model maximum"), "shrink", "PromptTooLong"),
    "413 without a body": (413, "", "shrink", "PromptTooLong"),
    "400 without a body": (400, "", "shrink", "PromptTooLong"),
    "A14": (429, nested(A14, type="tokens", code="rate_limit_exceeded"), "retry", "RateLimited"),
    "rate before overflow": (400, nested("Too many tokens, please wait before trying again."), "retry", "RateLimited"),
    "rate with words of length": (
        429,
        nested("Too many requests. Reduce the length of the messages or retry after 9 seconds."),
        "retry",
        "RateLimited",
    ),
    "one request above the rate": (
        429,
        nested("Request too large for gpt in org on tokens per min (TPM): Limit 10000", code="rate_limit_exceeded"),
        "shrink",
        "PromptTooLong",
    ),
    "A16": (429, nested("You exceeded your current quota", code="insufficient_quota"), "halt", "QuotaExceeded"),
    "A16 LiteLLM": (400, nested("Budget has been exceeded!", type="budget_exceeded"), "halt", "QuotaExceeded"),
    "402": (402, nested("Insufficient Balance"), "halt", "QuotaExceeded"),
    "A17": (429, nested("No deployments available for selected model"), "retry", "NotReady"),
    "A17 with 400": (400, nested("There are no healthy deployments for this model"), "retry", "NotReady"),
    "A18": (503, nested("Loading model", type="unavailable_error", code=503), "retry", "ModelLoading"),
    "A18 newer": (503, nested("Loading model", type="service_unavailable_error"), "retry", "ModelLoading"),
    "A18 failed": (500, nested("Failed to load model; an error occurred while loading model"), "retry", "ServerError"),
    "A19 page": (503, HTML_503, "retry", "NotReady"),
    "A19 router": (503, nested("none", code="no_available_workers"), "retry", "NotReady"),
    "A19b vLLM": (401, {"error": "Unauthorized"}, "halt", "KeyRefused"),
    "A19b llama.cpp": (401, nested("Invalid API Key", type="authentication_error", code=401), "halt", "KeyRefused"),
    "A19b OpenAI": (401, nested("Incorrect API key provided", code="invalid_api_key"), "halt", "KeyRefused"),
    "A19b LiteLLM": (403, nested("no", type="key_model_access_denied"), "halt", "KeyMayNotUseModel"),
    "A19c model": (404, flat("The model `x` does not exist.", type="NotFoundError", code=404), "halt", "ModelNotFound"),
    "A19c Ollama": (404, nested('model "x" not found, try pulling it first'), "halt", "ModelNotFound"),
    "A19c LiteLLM": (400, nested("Invalid model name passed in model=x. Call `/v1/models`"), "halt", "ModelNotFound"),
    "A19c URL": (404, {"detail": "Not Found"}, "halt", "BadURL"),
    "redirected": (301, "", "halt", "BadURL"),
    "A20 replayed": (
        400,
        nested("Assistant message must contain either 'content' or 'tool_calls'!"),
        "repair",
        "MalformedHistory",
    ),
    "A21 replayed": (400, flat("Expecting ',' delimiter: line 1 column 9 (char 8)"), "repair", "MalformedHistory"),
    "A21 llama.cpp": (500, nested("Failed to parse tool call arguments as JSON: …"), "repair", "MalformedHistory"),
    "A25": (400, nested("Duplicate value for 'tool_call_id' of 'x'"), "repair", "MalformedHistory"),
    "A26": (
        400,
        nested("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."),
        "repair",
        "MalformedHistory",
    ),
    "A30 with 400": (400, nested("No user query found in messages."), "repair", "MalformedHistory"),
    "A30 with 500": (500, nested("No user query found in messages."), "repair", "MalformedHistory"),
    "A31 with 500": (500, nested("System message must be at the beginning."), "repair", "MalformedHistory"),
    "A32": (400, nested("Conversation roles must alternate user/assistant/…"), "repair", "MalformedHistory"),
    "A33": (400, nested(A33, param="max_tokens", code="unsupported_parameter"), "degrade", "ParameterRefused"),
    "A33 mirror": (400, flat(A33_MIRROR), "degrade", "ParameterRefused"),
    "A34": (400, nested("Unrecognized request argument supplied: store"), "degrade", "ParameterRefused"),
    "A37": (400, nested("…", code="content_policy_violation"), "halt", "ContentFiltered"),
    "A37 Azure": (400, nested("triggered Azure OpenAI's content management policy"), "halt", "ContentFiltered"),
    "A38 in band": (200, nested("Provider returned error", code=502), "retry", "NotReady"),
    "A38 in a choice": (200, {"choices": [{"error": {"code": 429, "message": "slow"}}]}, "retry", "RateLimited"),
    "A38 without a code": (200, {"error": "something broke"}, "retry", "ServerError"),
    "no tool parser": (
        400,
        nested('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        "halt",
        "ToolsUnsupported",
    ),
    "408": (408, "", "retry", "ServerError"),
    "409": (409, nested("conflict"), "retry", "ServerError"),
    "unknown 500": (500, nested("CUDA error"), "retry", "ServerError"),
    "529": (529, nested("Overloaded", type="overloaded_error"), "retry", "NotReady"),
    "unknown 400": (400, nested("no such luck"), "repair", "BadRequest"),
    "bare status numbers in words": (400, nested("bad id 50012, see 429 and 503"), "repair", "BadRequest"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_fault_gets_the_verdict_that_helps(name: str) -> None:
    status, body, verdict, reason = CASES[name]

    judgement = judge(fault(status, body))

    assert (judgement.verdict, judgement.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("body", "prompt_tokens", "limit_tokens"),
    [
        (nested(A1), 5012, 4097),
        (nested(A2), 3012, 4097),
        (nested(A4), None, 32768),
        (flat(A8), 40012, 32768),
        (flat(A9), 31000, 32768),
        (nested("…", type="exceed_context_size_error", n_prompt_tokens=5000, n_ctx=4096), 5000, 4096),
        (nested("prompt is too long: 205,000 tokens > 200,000 maximum"), None, 200000),
        (nested("Your input exceeds the context window of this model."), None, None),
    ],
    ids=["A1", "A2", "A4 stops counting at its limit", "A8", "A9", "A6", "with commas", "no numbers"],
)
def test_an_overflow_tells_the_sizes_that_the_server_named(
    body: Any, prompt_tokens: int | None, limit_tokens: int | None
) -> None:
    judgement = judge(fault(400, body))

    assert (judgement.prompt_tokens, judgement.limit_tokens) == (prompt_tokens, limit_tokens)


@pytest.mark.parametrize(
    ("status", "body", "parameter"),
    [
        (400, nested(A33, param="max_tokens", code="unsupported_parameter"), "max_tokens"),
        (400, nested(A33), "max_tokens"),
        (400, flat(A33_MIRROR), "max_completion_tokens"),
        (400, nested("Unrecognized request argument supplied: store"), "store"),
        (400, nested("Unsupported value", param="temperature", code="unsupported_value"), "temperature"),
        (
            422,
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
            "seed",
        ),
    ],
)
def test_a_refused_parameter_is_named(status: int, body: Any, parameter: str) -> None:
    judgement = judge(fault(status, body))

    assert (judgement.verdict, judgement.parameter) == ("degrade", parameter)


def test_what_the_server_echoes_of_the_conversation_decides_nothing() -> None:
    echo = {"detail": [{"loc": ["body", "messages"], "msg": "Field required", "input": "rate limit, loading model"}]}

    assert judge(fault(422, echo)).reason == "BadRequest"


def test_the_servers_own_word_about_repeating_is_obeyed() -> None:
    refused = judge(fault(500, nested("broken"), x_should_retry="false"))
    invited = judge(fault(400, nested("flaky"), x_should_retry="true"))

    assert (refused.verdict, refused.reason, invited.verdict) == ("halt", "ServerSaysNo", "retry")


@pytest.mark.parametrize(
    "body",
    ["", "<html>ok</html>", {}, [], 7, None, {"choices": None}, {"choices": [], "error": None}, {"choices": [7]}],
    ids=repr,
)
def test_a_200_without_an_error_in_it_is_no_fault(body: Any) -> None:
    assert fault_in(answered(200, body)) is None


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": {"deep": 1}, "type": 5, "param": ["a"], "code": {}}},
        {"detail": [{"loc": 5, "msg": None}, "text", None]},
        {"errors": [["a"], {"message": "b"}]},
        [{"error": {"code": 400, "message": "in a list"}}],
        "just a JSON string",
    ],
    ids=repr,
)
def test_error_bodies_of_any_shape_are_read_without_failing(body: Any) -> None:
    assert judge(fault(400, json.dumps(body))).verdict == "repair"


NAMES = ["error", "message", "detail", "errors", "choices", "code", "type", "param", "loc", "msg", "metadata", "raw"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=20,
)


@given(status=st.sampled_from([200, 400, 404, 429, 500, 503]), body=JSON)
def test_no_body_whatsoever_makes_judging_fail(status: int, body: Any) -> None:
    found = fault_in(answered(status, json.dumps(body)))

    assert found is not None or status == 200
    if found:
        assert judge(found).reason
