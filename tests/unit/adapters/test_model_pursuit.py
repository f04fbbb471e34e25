"""The whole policy of repetition, on scripted answers: nothing sleeps, nothing is sent."""

import logging

import pytest

from fleetagent.adapters.model.answers import Answer, Because, NoAnswer
from fleetagent.domain.model import NothingUsable
from fleetagent.domain.resource import RESERVED_PARAMETERS
from fleetagent.errors import BadReply, BadResource, ModelLoading, TryLater
from support.pursuit import KEY, TOOL, Server, answered, asking, error, ok


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
    [*RESERVED_PARAMETERS, "extra_body"],
)
def test_parameters_may_not_say_what_the_operator_says(name: str) -> None:
    server = Server([ok()])

    with pytest.raises(BadResource, match=f"spec.model.parameters must not set {name}") as caught:
        server.reply(asking(parameters={name: 1}))

    assert (caught.value.condition, caught.value.reason, server.bodies) == ("ModelAvailable", "BadParameters", [])


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

    with pytest.raises(ModelLoading, match="Loading model"):
        server.reply()

    assert server.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert sum(server.waits) <= 240


def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    server = Server([error(429, "no", {"retry-after": "7"}), ok()])

    server.reply()

    assert server.waits == [7.0]


def test_a_wait_beyond_patience_is_handed_to_the_caller_at_once_and_says_until_when() -> None:
    server = Server([error(429, "no", {"retry-after": "3600"})])

    with pytest.raises(TryLater, match=r"it takes no request before 1970-01-01 01:00:00 UTC") as caught:
        server.reply(patience_seconds=240)

    assert (caught.value.retry_after_seconds, server.waits, len(server.bodies)) == (3600.0, [], 1)


def test_a_long_wait_within_patience_is_borne() -> None:
    server = Server([error(429, "Rate limit reached. Please try again in 1m30s."), ok()])

    assert server.reply().text == "hold"
    assert server.waits == [90.0]


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


def test_what_was_answered_in_vain_is_handed_on_since_it_was_paid_for() -> None:
    usage = {"prompt_tokens": 900, "completion_tokens": 2048}
    thoughts = answered(200, {"choices": [{"message": {"reasoning": "hm"}, "finish_reason": "length"}], "usage": usage})
    once, twice = Server([answered(503, ""), thoughts, ok()]), Server([thoughts])

    reply = once.reply()
    with pytest.raises(NothingUsable) as caught:
        twice.reply()

    assert [(r.usage.prompt_tokens, r.usage.completion_tokens, r.reasoning) for r in reply.discarded] == [
        (900, 2048, "hm")
    ]
    last = caught.value.reply
    assert last is not None
    assert [r.usage.completion_tokens for r in (*last.discarded, last)] == [2048, 2048]


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
