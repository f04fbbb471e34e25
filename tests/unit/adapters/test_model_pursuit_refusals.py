"""What a refusal teaches: a prompt too long, a field that is not taken, room that does not suffice."""

import re

import pytest

from fleetagent.adapters.model.answers import Answer, Because, NoAnswer
from fleetagent.adapters.model.payload import Habits
from fleetagent.domain.model import JsonObject
from fleetagent.errors import BadReply, BadResource, PromptTooLong
from support.pursuit import Server, answered, asking, error, ok


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


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_each_of_the_two_fields_is_given_up_for_the_other(field: str) -> None:
    other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[field]
    server = Server([error(422, "no", param=field, code="unsupported_parameter"), ok()], Habits(output_field=field))

    server.reply()

    assert [field in body for body in server.bodies] == [True, False]
    assert server.bodies[1][other] == 2048


def test_a_value_that_is_too_large_is_no_reason_to_swap_the_field() -> None:
    server = Server([error(400, "max_tokens is too large: 2048", param="max_tokens", code="invalid_value")])

    with pytest.raises(BadResource, match="maxOutputTokens"):
        server.reply()

    assert (len(server.bodies), server.habits) == (1, Habits())


HISTORY: tuple[JsonObject, ...] = (
    {"role": "system", "content": "rules"},
    {"role": "user", "content": "facts"},
    {"role": "user", "content": "a wish"},
    {
        "role": "assistant",
        "content": ".",
        "tool_calls": [{"id": "r1_1_0", "type": "function", "function": {"name": "get_fleet", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "r1_1_0", "content": "none"},
    {"role": "user", "content": "facts again"},
)
COMPLAINTS = {
    "turns": ("Conversation roles must alternate user/assistant/user/assistant/...", "wants_turns"),
    "no system": ("System role not supported", "takes_system"),
    "ids": ("Tool call IDs should be alphanumeric strings with length 9!", "wants_short_ids"),
}


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("name", COMPLAINTS)
def test_what_a_template_wants_is_given_once_without_a_wait_and_remembered(name: str, status: int) -> None:
    words, habit = COMPLAINTS[name]
    server = Server([error(status, words), ok()])
    before = getattr(server.habits, habit)

    server.reply(asking(messages=HISTORY))
    later = Server([ok()], server.habits)
    later.reply(asking(messages=HISTORY))

    assert (len(server.bodies), server.waits) == (2, [])
    assert getattr(server.habits, habit) is not before
    assert server.bodies[0]["messages"] == list(HISTORY)
    assert server.bodies[1]["messages"] == later.bodies[0]["messages"] != list(HISTORY)


@pytest.mark.parametrize("name", COMPLAINTS)
def test_what_has_it_already_and_complains_is_not_asked_the_same_again(name: str) -> None:
    server = Server(
        [error(400, COMPLAINTS[name][0])], Habits(wants_turns=True, takes_system=False, wants_short_ids=True)
    )

    with pytest.raises(BadReply, match="MalformedHistory"):
        server.reply(asking(messages=HISTORY))

    assert len(server.bodies) == 1


def test_a_server_that_refuses_whatever_is_sent_is_not_asked_without_end() -> None:
    names = ["max_tokens", "max_completion_tokens"] * 10
    server = Server([error(400, "no", param=name, code="unsupported_parameter") for name in names])

    with pytest.raises(BadResource, match="maxOutputTokens"):
        server.reply()

    assert len(server.bodies) == 3


def test_a_template_with_several_wishes_gets_them_all() -> None:
    server = Server([*(error(500, words) for words, _ in COMPLAINTS.values()), ok()])

    server.reply(asking(messages=HISTORY))

    first, second, result, bridge, last = server.bodies[-1]["messages"]
    assert (first["role"], first["content"]) == ("user", "rules\n\nfacts\n\na wish")
    assert re.fullmatch(r"[A-Za-z0-9]{9}", second["tool_calls"][0]["id"])
    assert result == {"role": "tool", "tool_call_id": second["tool_calls"][0]["id"], "content": "none"}
    assert (bridge["role"], last) == ("assistant", HISTORY[-1])


def test_what_another_agent_learnt_meanwhile_is_used_and_not_unlearnt() -> None:
    server = Server([error(400, "no", param="max_tokens", code="unsupported_parameter"), ok()])

    def meanwhile() -> None:
        server.habits.output_field = "max_completion_tokens"

    server.on_call = meanwhile
    server.reply()

    assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 2048]
    assert server.habits.output_field == "max_completion_tokens"


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


def test_reasoning_that_was_cut_off_gets_twice_the_room() -> None:
    server = Server([ok(None, "length", reasoning="hm"), ok()])

    server.reply()

    assert [body["max_tokens"] for body in server.bodies] == [2048, 4096]


def test_the_larger_room_stays_within_what_the_window_leaves() -> None:
    server, full = (
        Server([ok(None, "length", reasoning="hm"), ok()]),
        Server([ok(None, "length", reasoning="hm"), ok()]),
    )

    server.reply(asking(most_output_tokens=3000))
    full.reply(asking(most_output_tokens=2048))

    assert [body["max_tokens"] for body in server.bodies] == [2048, 3000]
    assert [body["max_tokens"] for body in full.bodies] == [2048, 2048]


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
