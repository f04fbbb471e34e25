"""The text of a call's arguments."""

import json

import pytest
from hypothesis import given

from fleetagent.domain.arguments import compact, decoded_at, diagnosis, parsed_arguments, stored_arguments
from support.histories import ARGUMENTS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 12', "are not valid JSON"),
        ("[]", "are not a JSON object"),
        ('"x"', "are not a JSON object"),
        ('{"a":NaN}', "hold NaN, which is no number"),
        ('{"a":1,"a":2}', "name one key twice"),
        ('{"a":' * 30 + "1" + "}" * 30, "are nested too deeply"),
        ("[" * 7_000, "are nested too deeply"),
        ('{"a":"' + "x" * 8_000 + '"}', "are too long (8,008 characters, at most 8,000)"),
    ],
)
def test_what_is_no_json_object_is_refused_with_words_for_the_model(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^(are|hold|name)") as told:
        parsed_arguments(text)

    assert str(told.value).startswith(words)


@pytest.mark.parametrize("text", ['{"minutes": 5}', '"{\\"minutes\\": 5}"', ' "\\n{\\"minutes\\": 5}" '])
def test_an_object_that_was_encoded_twice_is_read(text: str) -> None:
    assert parsed_arguments(text) == {"minutes": 5}


@given(ARGUMENTS)
def test_what_is_stored_of_any_arguments_is_an_object_that_stays_the_same(text: str) -> None:
    once = compact(stored_arguments(text))

    assert isinstance(json.loads(once), dict)
    assert compact(stored_arguments(once)) == once


def test_a_diagnosis_is_short_and_one_line() -> None:
    found = diagnosis("{\n<tool_call>" * 100)["invalid_arguments"]

    assert len(found) <= 200
    assert "\n" not in found
    assert "<" not in found


def test_a_value_is_read_from_the_middle_of_a_text() -> None:
    assert decoded_at('call {"a": "}"} now', 5) == ({"a": "}"}, 15)
