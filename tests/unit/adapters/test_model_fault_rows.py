"""The catalogue of real servers' faults, row by row: what becomes of each that never stops.

A row says what the server means. It is tried in every body that servers put it in and with every status they give it:
the error that leaves, its words and the number of calls are the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from fleetagent.adapters.model.answers import Answer, Because, NoAnswer
from fleetagent.errors import (
    BadReply,
    BadResource,
    FleetAgentError,
    ModelLoading,
    PromptTooLong,
    TryLater,
)
from support.pursuit import KEY, Server, answered, ok

ANY = (400, 413, 422, 429, 500, 503)
REFUSALS = (400, 413, 422)
WORDS_ALONE = "NFSDBI"
WITH_FIELDS = "NFI"

SPLIT = "maximum context length is 4097 tokens. However, "
A1 = f"This model's {SPLIT}your messages resulted in 5012 tokens (4900 in the messages, 112 in the functions)."
A2 = f"This model's {SPLIT}you requested 5012 tokens (3012 in the messages, 2000 in the completion)."
A4 = (
    "You passed 30721 input tokens and requested 2048 output tokens. However, the model's context length is only 32768 "
    "tokens, resulting in a maximum input length of 30720 tokens. Please reduce the length of the input prompt."
)
A4_CHARACTERS = A4.replace("30721 input tokens", "122887 input characters")
A9 = (
    "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 33000 "
    "tokens: 31000 tokens from the input messages and 2000 tokens for the completion."
)
A14 = "Rate limit reached for gpt on tokens per min (TPM): Limit 30000, Used 29000. Please try again in 41.724s."
A25 = "Duplicate value for 'tool_call_id' of 'x' in message[4]"
A26 = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
A32 = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
A33 = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
NO_DEPLOYMENTS = "No deployments available for selected model. Passed model=qwen"
MISTRAL_IDS = "Tool call id was r7_1_0 but must be a-z, A-Z, 0-9, with a length of 9."
LENGTH, QUOTA = "for its length", "quota or credit at the model server is used up"
TEMPLATE = r"refuses the request \(MalformedHistory\)"
BUSY, NOT_READY, FAILS = r"\(RateLimited", r"\(NotReady", "3 times in the same way"
ALL_PATIENCE = 10  # waits of 0.5 s that double up to a minute, within 240 s


@dataclass(frozen=True)
class Row:
    """What a server says, and what must come of it when it says it for ever."""

    says: str
    ends: type[FleetAgentError]
    words: str
    calls: int = 1
    reason: str = ""
    statuses: tuple[int, ...] = ANY
    shapes: str = WORDS_ALONE
    fields: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Every body and status, each with a name."""
        flat = {"message": self.says, "type": "BadRequestError", "param": None, "code": None, **self.fields}
        for status in self.statuses:
            bodies = {
                "N": {"error": flat},
                "F": {"object": "error", **flat},
                "S": {"error": self.says},
                "D": {"detail": self.says},
                "B": f"<html><body><h1>{self.says}</h1></body></html>",
            }
            for shape in self.shapes:
                if shape == "I":
                    in_band = {"error": {**flat, "code": flat["code"] or status}}
                    yield f"{status} inside a 200", answered(200, in_band, self.headers)
                else:
                    yield f"{status} {shape}", answered(status, bodies[shape], self.headers)


def halt(says: str, reason: str, words: str, **more: Any) -> Row:
    return Row(says, BadResource, words, reason=reason, **more)


ROWS: dict[str, Row] = {
    "A1": Row(A1, PromptTooLong, LENGTH),
    "A1 by its code": Row(
        "…", PromptTooLong, LENGTH, shapes=WITH_FIELDS, fields={"code": "context_length_exceeded", "param": "messages"}
    ),
    "A1 newer": Row("Your input exceeds the context window of this model.", PromptTooLong, LENGTH),
    "A2, A3": Row(A2, PromptTooLong, LENGTH, calls=2),
    "A2 DeepSeek": Row(A2, PromptTooLong, LENGTH, calls=2, shapes="N", fields={"code": "invalid_request_error"}),
    "A4": Row(A4, PromptTooLong, LENGTH),
    "A4 characters": Row(A4_CHARACTERS, PromptTooLong, LENGTH),
    "A4 by its field": Row(
        "…", PromptTooLong, LENGTH, statuses=(400,), shapes=WITH_FIELDS, fields={"param": "input_text", "code": 400}
    ),
    "A5": Row("max_tokens must be at least 1, got -186.", PromptTooLong, LENGTH),
    "A6": Row(
        "the request exceeds the available context size, try increasing it",
        PromptTooLong,
        LENGTH,
        shapes=WITH_FIELDS,
        fields={"type": "exceed_context_size_error", "n_prompt_tokens": 5000, "n_ctx": 4096},
    ),
    "A6 by its type": Row("…", PromptTooLong, LENGTH, shapes=WITH_FIELDS, fields={"type": "exceed_context_size_error"}),
    "A6 first builds": Row("the request exceeds the available context size. code 500", PromptTooLong, LENGTH),
    "A6 larger": Row("input is larger than the max context size. skipping", PromptTooLong, LENGTH),
    "A7": Row(
        "Context size has been exceeded.", PromptTooLong, "no room for this prompt", calls=2, statuses=(500, 503)
    ),
    "A7 decode": Row(
        "decode() failed: Context size has been exceeded.", PromptTooLong, "no room", calls=2, statuses=(500,)
    ),
    "A8": Row(
        "The input (40012 tokens) is longer than the model's context length (32768 tokens).", PromptTooLong, LENGTH
    ),
    "A9": Row(A9, PromptTooLong, LENGTH, calls=2),
    "A11": Row("the input length exceeds the context length", PromptTooLong, LENGTH),
    "A11 with sizes": Row("input length (5012 tokens) exceeds the context length of 4096", PromptTooLong, LENGTH),
    "A12": Row(f"litellm.ContextWindowExceededError: litellm.BadRequestError: {A1}", PromptTooLong, LENGTH),
    "A12 unnamed": Row(f"litellm.BadRequestError: OpenAIException - {A1}", PromptTooLong, LENGTH),
    "A12 unmapped": Row("The prompt is too long: 365407, model maximum context length: 262144", PromptTooLong, LENGTH),
    "LM Studio": Row(
        "The number of tokens to keep from the initial prompt is greater than the context length", PromptTooLong, LENGTH
    ),
    "Anthropic": Row("prompt is too long: 205,000 tokens > 200,000 maximum", PromptTooLong, LENGTH),
    "xAI": Row(
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", PromptTooLong, LENGTH
    ),
    "Gemini": Row(
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", PromptTooLong, LENGTH
    ),
    "Groq": Row("Please reduce the length of the messages or completion.", PromptTooLong, LENGTH),
    "Kimi": Row("Your request exceeded model token limit: 262144", PromptTooLong, LENGTH),
    "Mistral": Row(
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        PromptTooLong,
        LENGTH,
    ),
    "TGI": Row(
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
        PromptTooLong,
        LENGTH,
    ),
    "B32 shift": Row("context shift is disabled", PromptTooLong, LENGTH),
    "B32 limit 3": Row(A2.replace("4097", "3"), PromptTooLong, LENGTH),
    "a size above the rate": Row(
        "Request too large for gpt in org on tokens per min (TPM): Limit 10000, Requested 12000.", PromptTooLong, LENGTH
    ),
    "A14": Row(A14, TryLater, BUSY, calls=6),
    "A14 by its code": Row(
        "…", TryLater, BUSY, calls=ALL_PATIENCE, shapes=WITH_FIELDS, fields={"code": "rate_limit_exceeded"}
    ),
    "A14 by its header": Row("slow down", TryLater, BUSY, calls=4, statuses=(429,), headers={"retry-after": "61"}),
    "A14 by its status": Row("…", TryLater, BUSY, calls=ALL_PATIENCE, statuses=(429,)),
    "A15": Row(
        "slow down",
        TryLater,
        BUSY,
        calls=ALL_PATIENCE,
        statuses=(429,),
        headers={"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-remaining-requests": "0"},
    ),
    "too many tokens a minute": Row("Too many tokens, please wait before trying again.", TryLater, BUSY, ALL_PATIENCE),
    "A16": halt("You exceeded your current quota, please check your plan.", "QuotaExceeded", QUOTA),
    "A16 by its code": halt(
        "…", "QuotaExceeded", QUOTA, shapes=WITH_FIELDS, fields={"code": "insufficient_quota", "type": "tokens"}
    ),
    "A16 LiteLLM": halt(
        "Budget has been exceeded! Current cost: 5.2, Max budget: 5.0",
        "QuotaExceeded",
        QUOTA,
        fields={"type": "budget_exceeded"},
    ),
    "A17": Row(NO_DEPLOYMENTS, TryLater, NOT_READY, calls=4, headers={"retry-after": "60"}),
    "A17 unhealthy": Row("There are no healthy deployments for this model", TryLater, NOT_READY, calls=ALL_PATIENCE),
    "A17 down": Row(
        "litellm.InternalServerError: Connection error.", TryLater, NOT_READY, calls=ALL_PATIENCE, statuses=(500, 503)
    ),
    "A17 upstream's": Row("OpenAIException - slow", TryLater, BUSY, calls=ALL_PATIENCE, statuses=(429,)),
    "A18": Row("Loading model", ModelLoading, r"ModelLoading, 10 calls\): 503: Loading", ALL_PATIENCE, statuses=(503,)),
    "A18 anywhere": Row("Loading model", ModelLoading, "Loading model", ALL_PATIENCE),
    "A18 Ollama": Row("llm server loading model", ModelLoading, "loading model", ALL_PATIENCE),
    "A18 Hugging Face": Row("Model org/qwen is currently loading", ModelLoading, "loading", ALL_PATIENCE),
    "a model that is loaded": Row(
        "Model qwen is loaded without a chat parser", BadReply, "BadRequest", statuses=(400,)
    ),
    "B35 failed to load": Row("error loading model: no such tensor", TryLater, FAILS, calls=3, statuses=(500,)),
    "A19": Row("Service Temporarily Unavailable", TryLater, NOT_READY, calls=ALL_PATIENCE, statuses=(502, 503, 504)),
    "A19 router": Row(
        "…",
        TryLater,
        NOT_READY,
        ALL_PATIENCE,
        shapes=WITH_FIELDS,
        statuses=(503,),
        fields={"code": "no_available_workers"},
    ),
    "A19b": halt("Unauthorized", "KeyRefused", "put a valid one into the Secret of spec.model", statuses=(401,)),
    "A19b by its code": halt(
        "…", "KeyRefused", "put a valid one", statuses=(401,), shapes=WITH_FIELDS, fields={"code": "invalid_api_key"}
    ),
    "A19b LiteLLM": halt(
        "…", "KeyRefused", "put a valid", statuses=(401,), shapes=WITH_FIELDS, fields={"type": "expired_key"}
    ),
    "A19b model": halt(
        "…",
        "KeyMayNotUseModel",
        "have it allowed",
        statuses=(401, 403),
        shapes=WITH_FIELDS,
        fields={"type": "key_model_access_denied"},
    ),
    "A19c model": halt(
        "The model `qwen` does not exist.", "ModelNotFound", r"it offers qwen3\.5-122b, llama", statuses=(404, 400)
    ),
    "A19c route": halt("Not Found", "BadURL", r"spec\.model\.baseURL, which mostly ends in /v1", statuses=(404, 405)),
    "A20": Row("Assistant message must contain either 'content' or 'tool_calls'!", BadReply, TEMPLATE),
    "A21": Row("Expecting ',' delimiter: line 1 column 9 (char 8)", BadReply, TEMPLATE, statuses=(400, 422, 500)),
    "A21 llama.cpp": Row(
        "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]",
        BadReply,
        TEMPLATE,
        statuses=(400, 500),
    ),
    "A25": Row(A25, BadReply, TEMPLATE),
    "A26": Row(A26, BadReply, TEMPLATE),
    "A30": Row("No user query found in messages.", BadReply, TEMPLATE),
    "A31": Row("System message must be at the beginning.", BadReply, TEMPLATE),
    "A32": Row(A32, BadReply, TEMPLATE, calls=2),
    "A32 Mistral": Row("Unexpected role 'user' after role 'tool'", BadReply, TEMPLATE, calls=2),
    "A32 Gemma": Row("System role not supported", BadReply, TEMPLATE, calls=2),
    "A32 in a template": Row(f"Error rendering prompt with jinja template: {A32}", BadReply, TEMPLATE, calls=2),
    "Mistral's ids": Row(MISTRAL_IDS, BadReply, TEMPLATE, calls=2),
    "A33": halt(A33, "BadParameters", r"refuses spec\.model\.maxOutputTokens", calls=2, statuses=(400, 422, 500)),
    "A33 by its code": halt(
        "…",
        "BadParameters",
        "maxOutputTokens",
        calls=2,
        statuses=(400, 422),
        shapes=WITH_FIELDS,
        fields={"code": "unsupported_parameter", "param": "max_tokens"},
    ),
    "A34": Row(
        "Unrecognized request argument supplied: tool_choice", BadReply, "ParameterRefused", 2, statuses=(400, 422, 500)
    ),
    "A34 unknown": Row("Unsupported parameter: 'store'", BadReply, "ParameterRefused", statuses=(400, 422)),
    "A37": Row(
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        BadReply,
        "content filter",
    ),
    "A37 by its code": Row(
        "…", BadReply, "content filter", shapes=WITH_FIELDS, fields={"code": "content_policy_violation"}
    ),
    "no tool parser": halt(
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "ToolsUnsupported",
        "start the server with tool calling",
    ),
    "an unknown failure": Row("CUDA error: out of memory", TryLater, FAILS, calls=3, statuses=(500, 507, 520)),
    "an unknown refusal": Row("no such luck", BadReply, "BadRequest", statuses=(400, 422)),
    "B32 a mere mention": Row(
        "Invalid value for 'rope_scaling': it changes the maximum context length, which is fixed",
        BadReply,
        "BadRequest",
        statuses=(400, 422),
    ),
    "B32 another mention": Row(
        "tool 'a' is invalid: this model's maximum context length is 32768 tokens, said its description",
        BadReply,
        "BadRequest",
        statuses=(400,),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_fault_that_never_stops_ends_in_the_error_that_helps(name: str) -> None:
    row = ROWS[name]
    for where, answer in row.answers():
        server = Server([answer])

        with pytest.raises(row.ends, match=row.words) as caught:
            server.reply()

        assert type(caught.value) is row.ends or row.ends is BadReply, where
        assert getattr(caught.value, "reason", "") == row.reason, where
        assert len(server.bodies) == row.calls, where
        assert sum(server.waits) <= 240, where


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.calls > 1 and row.ends is not BadResource])
def test_a_fault_that_passes_is_forgotten(name: str) -> None:
    for where, answer in ROWS[name].answers():
        server = Server([answer, ok()])

        assert server.reply().text == "hold", where
        assert len(server.bodies) == 2, where


REPLIES: dict[str, tuple[list[Answer | NoAnswer], type[FleetAgentError], str, int]] = {
    "A13": ([ok("", "model_context_window_exceeded")], PromptTooLong, LENGTH, 1),
    "A13 in mid-word": ([ok("Hold, sin", "model_context_window_exceeded")], PromptTooLong, LENGTH, 1),
    "A19 refused": ([NoAnswer(Because.CONNECTION, "ConnectError: refused")], TryLater, r"\(Unreachable", ALL_PATIENCE),
    "A19 TLS": ([NoAnswer(Because.CONNECTION, "SSLEOFError: EOF")], TryLater, r"\(Unreachable", ALL_PATIENCE),
    "a certificate": ([NoAnswer(Because.CERTIFICATE, "self-signed")], BadResource, "TLS certificate", 1),
    "A20 thoughts alone": ([ok(None, reasoning="hm")], BadReply, "no text and no tool call, twice", 2),
    "A29b unclosed": ([ok("<think>hm, ", "length")], BadReply, "no text and no tool call, twice", 2),
    "A36 empty list": ([ok("", "tool_calls", tool_calls=[])], BadReply, "no text and no tool call, twice", 2),
    "A37 cut": ([ok("half a sen", "content_filter")], BadReply, "content filter", 1),
    "A38 empty": ([answered(200, {"choices": []})], BadReply, "no choices, twice", 2),
    "A38 null": ([answered(200, {"choices": None})], BadReply, "no choices, twice", 2),
    "A38 nothing": ([answered(200, {})], BadReply, "no choices, twice", 2),
    "A38 in a choice": (
        [answered(200, {"choices": [{"error": {"code": 502, "message": "Provider returned error"}}]})],
        TryLater,
        NOT_READY,
        ALL_PATIENCE,
    ),
    "B36 message null": ([answered(200, {"choices": [{"message": None}]})], BadReply, "no text and no tool call", 2),
    "B36 a number": ([answered(200, "7")], BadReply, "no choices, twice", 2),
    "B36 a login page": (
        [answered(200, "<!doctype html><title>Sign in</title>")],
        BadReply,
        r"a web page \(see that spec\.model\.baseURL leads to the model server",
        2,
    ),
    "B36, A41 cut off": ([answered(200, '{"choices": [{"message": {"content": "ho')], BadReply, "no JSON, twice", 2),
    "A41 a stream": ([answered(200, 'data: {"choices": [{"delta": {"content": "ho"}}]}')], BadReply, "no JSON", 2),
    "A41 an error cut off in a stream": (
        [answered(200, 'data: {"choices": [{"delta": {"content": "ho"}}]}\n\ndata: {"error": {"message": "busy"')],
        BadReply,
        "no JSON",
        2,
    ),
    "A7 in a stream": (
        [answered(200, 'data: {"choices": []}\n\ndata: {"error": {"message": "Context size has been exceeded."}}')],
        PromptTooLong,
        "no room for this prompt",
        2,
    ),
    "B36 nothing at all": ([answered(200, "")], BadReply, "an empty body", 2),
}


@pytest.mark.parametrize("name", REPLIES)
def test_an_answer_that_is_no_reply_is_never_taken_for_one(name: str) -> None:
    answers, ends, words, calls = REPLIES[name]
    server = Server(answers)

    with pytest.raises(ends, match=words):
        server.reply()

    assert len(server.bodies) == calls


def test_a42_a_server_that_is_too_slow_is_asked_twice_and_not_longer_than_patience() -> None:
    server = Server([NoAnswer(Because.TIMEOUT, "no whole answer within 120 s")], call_seconds=1000)

    with pytest.raises(TryLater, match="no whole answer within"):
        server.reply()

    assert (len(server.bodies), server.now) == (2, 240)


def test_b32_a_window_of_three_tokens_is_not_believed() -> None:
    with pytest.raises(PromptTooLong) as caught:
        Server([answered(400, {"error": {"message": A2.replace("4097", "3")}})]).reply()

    assert caught.value.limit_tokens is None


@pytest.mark.parametrize("name", ROWS)
def test_no_secret_leaves_with_an_error(name: str, caplog: pytest.LogCaptureFixture) -> None:
    row = ROWS[name]
    echoing = Row(
        f"{row.says} key={KEY}", row.ends, "", statuses=row.statuses[:1], shapes=row.shapes, fields=row.fields
    )
    for where, answer in echoing.answers():
        with pytest.raises(FleetAgentError) as caught:
            Server([Answer(answer.status, answer.body, {"x-request-id": KEY})]).reply()

        assert KEY not in str(caught.value), where
    assert KEY not in caplog.text
