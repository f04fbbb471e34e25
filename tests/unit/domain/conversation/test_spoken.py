"""Words apart from thoughts."""

import pytest

from fleetagent.domain.conversation.spoken import apart, spoken


@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("hold", "hold", ""),
        ("a < b, c > d", "a < b, c > d", ""),
        ("<think>why</think>\n\nhold", "hold", "why"),
        ("<THINKING>why</thinking>hold", "hold", "why"),
        ("in mid-thought</think>hold", "hold", "in mid-thought"),
        ("a</think>b</think>hold", "hold", "a\nb"),
        ("<think>never closed", "", "never closed"),
        ("hold <think>never closed", "hold", "never closed"),
        ("Plan: <think>x</think>hold", "Plan: hold", "x"),
        ("one<think>x</think>two", "one two", "x"),
        ("<think></think>hold", "hold", ""),
        ("<think>a<think>b</think>hold", "hold", "ab"),
        ("<thi<think>x</think>nk>hold", "<thi nk>hold", "x"),
        ("Hold.<|im_end|>", "Hold.", ""),
        ("Hold.<|eot_id|><|start_header_id|>user", "Hold.", ""),
        ("Hold.</s>", "Hold.", ""),
    ],
)
def test_thoughts_and_what_follows_the_turn_are_no_words(text: str, said: str, thought: str) -> None:
    assert apart(text) == (said, thought)


def test_a_text_without_tags_is_not_touched() -> None:
    assert spoken("  as it is \n") == "  as it is \n"


@pytest.mark.parametrize("text", ["<think>" * 200_000, "</think>" * 200_000, "<think>a</think>b" * 100_000])
def test_a_model_that_repeats_a_tag_without_end_is_read_at_once(text: str) -> None:
    assert len(apart(text)[0]) <= len(text)  # takes minutes where each tag looks for its end anew
