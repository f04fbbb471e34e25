"""The whole policy of repetition, on scripted answers: nothing sleeps, nothing is sent."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from fleetagent.adapters.model.answers import Answer, Because, NoAnswer
from fleetagent.adapters.model.complaints import Endpoint
from fleetagent.adapters.model.payload import Habits
from fleetagent.adapters.model.pursuit import Means, Pursuit
from fleetagent.adapters.model.redact import redacted
from fleetagent.adapters.model.waits import Timing
from fleetagent.domain.model import JsonObject, ModelRequest, Reply
from fleetagent.errors import BadReply, BadResource, PromptTooLong, TryLater

KEY = "very-secret-key"
TOOL = {"type": "function", "function": {"name": "get_fleet", "parameters": {"type": "object", "properties": {}}}}


def ok(content: Any = "hold", finish_reason: str = "stop", **message: Any) -> Answer:
    return answered(200, {"choices": [{"message": {"content": content, **message}, "finish_reason": finish_reason}]})


def answered(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, (body if isinstance(body, str) else json.dumps(body)).encode(), headers or {})


def error(status: int, message: str, headers: Mapping[str, str] | None = None, **fields: Any) -> Answer:
    return answered(status, {"error": {"message": message, **fields}}, headers)


def asking(**fields: Any) -> ModelRequest:
    usual: dict[str, Any] = {
        "messages": ({"role": "user", "content": "hi"},),
        "tools": (TOOL,),
        "max_output_tokens": 2048,
        "timeout": timedelta(seconds=120),
    }
    return ModelRequest(**{**usual, **fields})


@dataclass
class Server:
    """Answers from a list, the last one for ever; its clock moves only when somebody sleeps or calls take time."""

    answers: Sequence[Answer | NoAnswer]
    habits: Habits = field(default_factory=Habits)
    call_seconds: float = 0.0
    now: float = 0.0
    bodies: list[JsonObject] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def send(self, body: JsonObject, timeout_seconds: float) -> Answer | NoAnswer:
        self.now += min(self.call_seconds, timeout_seconds)
        self.bodies.append(body)
        return self.answers[min(len(self.bodies), len(self.answers)) - 1]

    async def offered(self) -> tuple[str, ...]:
        return ("qwen3.5-122b", "llama")

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def reply(self, request: ModelRequest | None = None, patience_seconds: float = 240) -> Reply:
        timing = Timing(sleep=self.sleep, chance=lambda: 1.0, monotonic=lambda: self.now, epoch=lambda: self.now)
        means = Means(
            send=self.send,
            offered=self.offered,
            hide=partial(redacted, secrets=(KEY,)),
            endpoint=Endpoint(url="http://llm/v1", model="qwen", has_key=True),
            habits=self.habits,
            timing=timing,
        )
        return asyncio.run(Pursuit(means, request or asking(), patience_seconds=patience_seconds).reply())


def test_a_good_answer_takes_one_call_and_no_wait() -> None:
    server = Server([ok()])

    assert server.reply().text == "hold"
    assert (len(server.bodies), server.waits) == (1, [])


def test_the_request_says_what_was_asked_for_and_nothing_else() -> None:
    server = Server([ok()])

    server.reply(asking(parameters={"temperature": 0.2}))

    assert server.bodies == [
        {
            "temperature": 0.2,
            "model": "qwen",
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [TOOL],
            "tool_choice": "auto",
            "max_tokens": 2048,
        }
    ]


def test_tools_stay_in_the_request_when_none_may_be_called() -> None:
    server = Server([ok()])

    server.reply(asking(may_call_tools=False))

    assert (server.bodies[0]["tools"], server.bodies[0]["tool_choice"]) == ([TOOL], "none")


def test_without_tools_there_is_no_tool_choice() -> None:
    server = Server([ok()])

    server.reply(asking(tools=()))

    assert not {"tools", "tool_choice"} & server.bodies[0].keys()


@pytest.mark.parametrize(
    "name",
    ["messages", "tools", "model", "stream", "n", "max_tokens", "max_completion_tokens", "tool_choice", "extra_body"],
)
def test_parameters_may_not_say_what_the_operator_says(name: str) -> None:
    server = Server([ok()])

    with pytest.raises(BadResource, match=f"spec.model.parameters must not set {name}") as caught:
        server.reply(asking(parameters={name: 1}))

    assert (caught.value.condition, caught.value.reason, server.bodies) == ("ModelAvailable", "BadParameters", [])


def test_a_response_format_beside_tools_is_refused() -> None:
    with pytest.raises(BadResource, match="response_format"):
        Server([ok()]).reply(asking(parameters={"response_format": {"type": "json_object"}}))


@pytest.mark.parametrize(
    "trouble",
    [
        NoAnswer(Because.CONNECTION, "refused"),
        NoAnswer(Because.TIMEOUT, "slow"),
        error(503, "Loading model", type="unavailable_error"),
        answered(502, "<html>bad gateway</html>"),
        error(429, "slow down"),
        error(500, "CUDA error"),
        answered(408, ""),
        answered(200, {"error": {"message": "Provider returned error", "code": 502}}),
        answered(200, "<html>welcome</html>"),
        answered(200, '{"choices": ['),
        answered(200, {"choices": None}),
    ],
    ids=repr,
)
def test_a_passing_trouble_is_waited_out(trouble: Answer | NoAnswer) -> None:
    server = Server([trouble, ok()])

    assert server.reply().text == "hold"
    assert (len(server.bodies), server.waits) == (2, [0.5])


def test_a_model_that_loads_is_waited_for_until_patience_ends() -> None:
    server = Server([error(503, "Loading model", type="unavailable_error")])

    with pytest.raises(TryLater, match="Loading model"):
        server.reply()

    assert server.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert sum(server.waits) <= 240


def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    server = Server([error(429, "no", {"retry-after": "7"}), ok()])

    server.reply()

    assert server.waits == [7.0]


def test_a_longer_wait_is_handed_to_the_caller_at_once() -> None:
    server = Server([error(429, "Rate limit reached. Please try again in 1m30s.")])

    with pytest.raises(TryLater) as caught:
        server.reply(patience_seconds=1000)

    assert (caught.value.retry_after_seconds, server.waits) == (90.0, [])


def test_a_server_that_never_answers_in_time_is_asked_twice() -> None:
    server = Server([NoAnswer(Because.TIMEOUT, "slow")], call_seconds=1000)

    with pytest.raises(TryLater):
        server.reply(patience_seconds=240)

    assert (len(server.bodies), server.now) == (2, 240)


def test_the_same_internal_error_three_times_is_not_of_the_passing_kind() -> None:
    server = Server(
        [
            error(500, "assert failed in request 1"),
            error(500, "assert failed in request 22"),
            error(500, "assert failed in request 333"),
            ok(),
        ]
    )

    with pytest.raises(TryLater, match="3 times in the same way"):
        server.reply()

    assert len(server.bodies) == 3


def test_a_gateways_page_may_be_the_same_many_times() -> None:
    server = Server([answered(502, "<html>bad gateway</html>")] * 5 + [ok()])

    assert server.reply().text == "hold"


@pytest.mark.parametrize("status", [400, 500])
def test_a_prompt_that_can_never_succeed_is_not_sent_again(status: int) -> None:
    server = Server([error(status, "System message must be at the beginning.")])

    with pytest.raises(BadReply, match="MalformedHistory"):
        server.reply()

    assert len(server.bodies) == 1


def test_an_overflow_names_the_window_and_is_not_sent_again() -> None:
    server = Server(
        [
            error(
                400,
                "the request exceeds the available context size",
                type="exceed_context_size_error",
                n_prompt_tokens=5000,
                n_ctx=4096,
            )
        ]
    )

    with pytest.raises(PromptTooLong) as caught:
        server.reply()

    assert (caught.value.limit_tokens, len(server.bodies)) == (4096, 1)


def requested(prompt: int, completion: int) -> Answer:
    words = f"({prompt} in the messages, {completion} in the completion)"
    return error(400, f"This model's maximum context length is 32768 tokens. However, you requested too many {words}.")


def test_a_prompt_that_fits_gets_a_shorter_answer_before_anything_is_compacted() -> None:
    server = Server([requested(31768, 2048), ok()])

    assert server.reply().text == "hold"
    assert [body["max_tokens"] for body in server.bodies] == [2048, 984]


@pytest.mark.parametrize("answers", [[requested(31768, 2048)], [requested(32700, 2048)], [requested(40000, 2048)]])
def test_a_shorter_answer_is_tried_once_and_only_if_it_leaves_room(answers: list[Answer | NoAnswer]) -> None:
    server = Server(answers)

    with pytest.raises(PromptTooLong):
        server.reply()

    assert len(server.bodies) <= 2


def test_a_full_shared_cache_is_given_time_once() -> None:
    full = error(500, "Context size has been exceeded.", type="server_error", code=500)
    server, hopeless = Server([full, ok()]), Server([full])

    assert server.reply().text == "hold"
    assert server.waits == [5.0]
    with pytest.raises(PromptTooLong):
        hopeless.reply()


def test_max_tokens_is_swapped_once_and_remembered() -> None:
    habits = Habits()
    first = Server([error(400, "no", param="max_tokens", code="unsupported_parameter"), ok()], habits)
    first.reply()
    second = Server([ok()], habits)
    second.reply()

    assert [("max_tokens" in body, body.get("max_completion_tokens")) for body in (*first.bodies, *second.bodies)] == [
        (True, None),
        (False, 2048),
        (False, 2048),
    ]


def test_a_server_that_refuses_both_fields_ends_the_search() -> None:
    refusals = [
        error(400, "no", param=name, code="unsupported_parameter")
        for name in ("max_tokens", "max_completion_tokens", "max_tokens")
    ]

    with pytest.raises(BadResource, match="maxOutputTokens"):
        Server(refusals).reply()


def test_a_refused_tool_choice_is_dropped_and_remembered() -> None:
    server = Server([error(400, "Unrecognized request argument supplied: tool_choice"), ok()])

    server.reply()

    assert ["tool_choice" in body for body in server.bodies] == [True, False]
    assert not server.habits.takes_tool_choice


def test_a_refused_parameter_of_the_resource_is_said_and_not_dropped() -> None:
    server = Server([error(400, "temperature is not for this model", param="temperature", code="unsupported_value")])

    with pytest.raises(BadResource, match=r"refuses spec\.model\.parameters\.temperature") as caught:
        server.reply(asking(parameters={"temperature": 0.2}))

    assert (caught.value.reason, len(server.bodies)) == ("BadParameters", 1)


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (answered(401, {"error": "Unauthorized"}), "KeyRefused", "spec.model.apiKeySecretRef"),
        (error(429, "no", code="insufficient_quota"), "QuotaExceeded", "used up"),
        (error(404, "The model `qwen` does not exist."), "ModelNotFound", "it offers qwen3.5-122b, llama"),
        (answered(404, {"detail": "Not Found"}), "BadURL", "spec.model.baseURL, which mostly ends in /v1"),
        (error(400, "x does not support tools"), "ToolsUnsupported", "--enable-auto-tool-choice"),
        (NoAnswer(Because.CERTIFICATE, "self-signed"), "CertificateRefused", "TLS certificate"),
    ],
)
def test_what_only_the_owner_can_mend_says_what_to_do(answer: Answer | NoAnswer, reason: str, words: str) -> None:
    server = Server([answer])

    with pytest.raises(BadResource, match=words) as caught:
        server.reply()

    assert (caught.value.condition, caught.value.reason, len(server.bodies)) == ("ModelAvailable", reason, 1)


def test_filtered_content_concerns_this_run_alone() -> None:
    for answer in (error(400, "no", code="content_filter"), ok("half a sen", "content_filter")):
        with pytest.raises(BadReply, match="content filter"):
            Server([answer]).reply()


def test_an_empty_reply_is_asked_for_once_more_without_a_wait() -> None:
    server, hopeless = Server([ok(""), ok()]), Server([ok(None, tool_calls=[])])

    assert server.reply().text == "hold"
    assert (len(server.bodies), server.waits) == (2, [])
    with pytest.raises(BadReply, match="no text and no tool call, twice"):
        hopeless.reply()
    assert len(hopeless.bodies) == 2


def test_reasoning_that_was_cut_off_gets_twice_the_room() -> None:
    server = Server([ok(None, "length", reasoning="hm"), ok()])

    server.reply()

    assert [body["max_tokens"] for body in server.bodies] == [2048, 4096]


def test_a_refusal_although_there_is_room_enough_halves_the_answer_once() -> None:
    server = Server([requested(1000, 2048), ok()])

    server.reply()

    assert [body["max_tokens"] for body in server.bodies] == [2048, 1024]


def test_when_the_larger_room_does_not_fit_the_prompt_is_not_to_blame() -> None:
    server = Server([ok(None, "length", reasoning="hm"), requested(30000, 4096)])

    with pytest.raises(BadReply, match="reasons to the limit"):
        server.reply()


def test_a_window_that_was_full_before_the_first_word_is_an_overflow() -> None:
    with pytest.raises(PromptTooLong):
        Server([ok("", "model_context_window_exceeded")]).reply()


def test_a_call_written_as_text_is_a_call_unless_none_may_be_made() -> None:
    text = '<tool_call>{"name": "get_fleet", "arguments": {}}</tool_call>'

    assert [call.name for call in Server([ok(text)]).reply().calls] == ["get_fleet"]
    assert Server([ok(text)]).reply(asking(may_call_tools=False)).calls == ()


def test_each_failed_call_is_logged_with_its_id_and_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    body = error(401, f"Incorrect API key provided: {KEY}\nforged line {'x' * 5000}", {"x-request-id": "req-7"})

    with caplog.at_level(logging.WARNING), pytest.raises(BadResource) as caught:
        Server([body]).reply()

    (record,) = caplog.records
    line = record.getMessage()
    assert "request_id=req-7" in line
    assert "status=401 verdict=halt reason=KeyRefused" in line
    assert "\n" not in line
    assert 2000 < len(line) < 2300
    assert KEY not in line + str(caught.value)
    assert len(str(caught.value)) < 500
