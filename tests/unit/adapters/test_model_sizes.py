"""What a server says of tokens itself: asked seldom, remembered, believed within reason."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from fleetagent.adapters.model.answers import Answer, Because, NoAnswer
from fleetagent.adapters.model.sizes import ServersOwn, Sizes
from fleetagent.domain.model import JsonObject

BASE = "http://model:8000/v1"
TOKENIZE, PROPS, INPUT_TOKENS = (
    "http://model:8000/tokenize",
    "http://model:8000/props",
    "/chat/completions/input_tokens",
)
CHAT: JsonObject = {
    "model": "qwen",
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"type": "function"}],
    "tool_choice": "auto",
    "max_tokens": 9,
    "chat_template_kwargs": {"enable_thinking": False},
}
SILENCE = NoAnswer(Because.TIMEOUT, "no answer")


def said(body: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(body).encode())


@dataclass
class Server:
    """Answers what it is told to, 404 to all else; time is what the test says."""

    answers: dict[str, Answer | NoAnswer] = field(default_factory=dict)
    asked: list[tuple[str, JsonObject | None]] = field(default_factory=list)
    now: float = 1_000.0
    sizes: Sizes = field(default_factory=Sizes)

    async def fetch(self, url: str, body: JsonObject | None) -> Answer | NoAnswer:
        self.asked.append((url, body))
        return self.answers.get(url, said({"detail": "Not Found"}, 404))

    def own(self, base_url: str = BASE) -> ServersOwn:
        """As each run makes it anew; what is known is shared."""
        return ServersOwn(self.fetch, base_url=base_url, model="qwen", sizes=self.sizes, monotonic=lambda: self.now)

    def urls(self) -> list[str]:
        return [url for url, _ in self.asked]


def listed(**entry: Any) -> Answer:
    return said({"object": "list", "data": [{"id": "other", "max_model_len": 4_096}, {"id": "qwen", **entry}]})


class TestTheWindow:
    @pytest.mark.parametrize("name", ["max_model_len", "context_window", "context_length", "max_context_length"])
    async def test_it_is_the_one_that_the_list_of_models_names_for_this_model(self, name: str) -> None:
        server = Server({"/models": listed(**{name: 32_768})})

        assert await server.own().window() == 32_768
        assert server.urls() == ["/models"]

    async def test_llama_cpp_names_it_in_its_properties(self) -> None:
        properties = {"default_generation_settings": {"n_ctx": 8_192}, "total_slots": 4}
        server = Server({"/models": listed(meta={"n_ctx_train": 262_144}), PROPS: said(properties)})

        assert await server.own().window() == 8_192

    async def test_the_only_model_is_meant_whatever_it_is_called(self) -> None:
        server = Server({"/models": said({"data": [{"id": "/models/qwen.gguf", "max_model_len": 16_384}]})})

        assert await server.own().window() == 16_384

    @pytest.mark.parametrize("value", [0, -1, True, "32768", 12.5, None, 10**12, 3])
    async def test_nonsense_is_no_window(self, value: Any) -> None:
        assert await Server({"/models": listed(max_model_len=value)}).own().window() is None

    @pytest.mark.parametrize(
        "answer", [SILENCE, Answer(200, b"<html>"), said([]), said({"data": None}), said({}, 500), said("x")]
    )
    async def test_whatever_comes_back_no_run_fails_for_it(self, answer: Answer | NoAnswer) -> None:
        assert await Server({"/models": answer, PROPS: answer}).own().window() is None

    async def test_it_is_asked_for_once_an_hour_whether_there_is_one_or_none(self) -> None:
        for answers, questions in (({"/models": listed(max_model_len=9_000)}, 1), ({}, 2)):
            server = Server(dict(answers))
            for _ in range(50):
                await server.own().window()
                server.now += 70
            assert len(server.asked) == questions
            server.now += 200
            await server.own().window()
            assert len(server.asked) == 2 * questions

    async def test_a_server_that_was_away_is_asked_again_in_minutes_and_not_in_each_run(self) -> None:
        server = Server({"/models": SILENCE, PROPS: SILENCE})
        for _ in range(10):
            await server.own().window()
            server.now += 29
        assert server.urls() == ["/models"], "and not for its properties either"
        assert await server.own().count(CHAT) is None
        assert server.urls() == ["/models"], "nor for a count"
        server.answers["/models"] = listed(max_model_len=9_000)
        server.now += 30

        assert await server.own().window() == 9_000

    async def test_what_a_refusal_named_holds_for_a_day_and_the_smaller_one_counts(self) -> None:
        server = Server({"/models": listed(max_model_len=32_768)})
        server.own().refused_at(16_384)

        assert await server.own().window() == 16_384
        server.now += 86_000
        assert await server.own().window() == 16_384
        server.now += 500
        assert await server.own().window() == 32_768

    async def test_a_refusal_that_names_nonsense_is_not_believed(self) -> None:
        server = Server()
        for limit in (None, 3, 1_999):
            server.own().refused_at(limit)

        assert await server.own().window() is None

    async def test_a_prompt_that_was_answered_disproves_a_smaller_window(self) -> None:
        server = Server()
        server.own().refused_at(8_192)
        server.own().accepted(8_000)
        assert await server.own().window() == 8_192

        server.own().accepted(9_000)

        assert await server.own().window() is None


class TestTheCounter:
    async def test_vllms_stands_outside_v1_and_takes_what_its_template_takes(self) -> None:
        server = Server({TOKENIZE: said({"count": 1_234, "max_model_len": 32_768, "tokens": [1], "token_strs": None})})

        assert await server.own().count(CHAT) == 1_234
        kept = {name: CHAT[name] for name in ("model", "messages", "tools", "chat_template_kwargs")}
        assert server.asked == [(TOKENIZE, {**kept, "add_generation_prompt": True})]

    async def test_llama_cpps_is_asked_with_exactly_what_would_be_sent(self) -> None:
        counted = said({"object": "response.input_tokens", "input_tokens": 777})
        server = Server({INPUT_TOKENS: counted, TOKENIZE: said({"tokens": []})})

        assert await server.own().count(CHAT) == 777
        assert server.asked[-1] == (INPUT_TOKENS, CHAT)

    @pytest.mark.parametrize("base_url", ["http://model:8000", "http://model:8000/", "http://model:8000/v1/"])
    async def test_it_is_found_however_the_base_url_ends(self, base_url: str) -> None:
        assert await Server({TOKENIZE: said({"count": 5})}).own(base_url).count(CHAT) == 5

    async def test_the_one_that_answered_is_the_only_one_asked_from_then_on(self) -> None:
        server = Server({INPUT_TOKENS: said({"input_tokens": 5})})
        for _ in range(3):
            await server.own().count(CHAT)

        assert server.urls() == [TOKENIZE, INPUT_TOKENS, INPUT_TOKENS, INPUT_TOKENS]

    async def test_that_there_is_none_is_remembered_for_an_hour(self) -> None:
        server = Server()
        for _ in range(50):
            assert await server.own().count(CHAT) is None
            server.now += 70
        assert server.urls() == [TOKENIZE, INPUT_TOKENS]
        server.now += 200
        server.answers[TOKENIZE] = said({"count": 5})

        assert await server.own().count(CHAT) == 5

    @pytest.mark.parametrize("answer", [SILENCE, said({}, 500), said({}, 429), said({}, 503)])
    async def test_one_that_does_not_answer_now_is_left_alone_for_minutes(self, answer: Answer | NoAnswer) -> None:
        server = Server({TOKENIZE: said({"count": 5})})
        await server.own().count(CHAT)
        server.answers[TOKENIZE] = answer
        for _ in range(5):
            assert await server.own().count(CHAT) is None
        assert len(server.asked) == 2
        server.now += 301
        server.answers[TOKENIZE] = said({"count": 6})

        assert await server.own().count(CHAT) == 6

    async def test_one_that_refuses_a_prompt_is_still_a_counter(self) -> None:
        server = Server({TOKENIZE: said({"count": 5})})
        await server.own().count(CHAT)
        server.answers[TOKENIZE] = said({"error": {"message": "No user query found in messages."}}, 400)
        assert await server.own().count(CHAT) is None
        server.now += 301
        server.answers[TOKENIZE] = said({"count": 6})
        await server.own().count(CHAT)

        assert server.urls() == [TOKENIZE] * 3

    async def test_a_server_that_gave_way_to_one_of_another_kind_is_asked_afresh(self) -> None:
        server = Server({TOKENIZE: said({"count": 5})})
        await server.own().count(CHAT)
        server.answers = {INPUT_TOKENS: said({"input_tokens": 7})}
        assert await server.own().count(CHAT) is None
        server.now += 3_601

        assert await server.own().count(CHAT) == 7

    @pytest.mark.parametrize("value", [0, -3, None, "12", 1.5, True, 10**12])
    async def test_nonsense_is_no_count(self, value: Any) -> None:
        assert await Server({TOKENIZE: said({"count": value})}).own().count(CHAT) is None
