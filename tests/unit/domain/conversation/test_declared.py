"""One rule for types that models misspell."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.conversation.declared import as_declared, names, unknown_names
from fleetagent.domain.model import JsonObject


def a_tool(required: tuple[str, ...] = (), **types: Any) -> JsonObject:
    properties = {name: kind if isinstance(kind, dict) else {"type": kind} for name, kind in types.items()}
    return {"name": "act", "parameters": {"type": "object", "properties": properties, "required": list(required)}}


NULLABLE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("kind", "given_value", "value"),
    [
        ("string", "123", "123"),
        ("string", "true", "true"),
        ("string", "null", "null"),
        ("string", '{"a":1}', '{"a":1}'),
        ("string", " as it is ", " as it is "),
        ("string", 123, "123"),
        ("string", 123.0, "123"),
        ("string", 0.5, "0.5"),
        ("integer", 2, 2),
        ("integer", 2.0, 2),
        ("integer", "2", 2),
        ("integer", " 2 ", 2),
        ("integer", "2.0", 2),
        ("integer", "1e3", 1000),
        ("integer", "-1", -1),
        ("number", "2.7", 2.7),
        ("number", "1e3", 1000.0),
        ("number", 5, 5),
        ("number", "1e308", 1e308),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("boolean", False, False),
        ("array", '["a", 1]', ["a", 1]),
        ("array", [], []),
        ("object", '{"a": 1}', {"a": 1}),
        ("object", {"a": 1}, {"a": 1}),
        (["integer", "string"], "12", "12"),
        (["integer", "boolean"], "true", True),
        (NULLABLE, None, None),
        (NULLABLE, "null", None),
        (NULLABLE, "7", 7),
        ({}, "12", "12"),
        ({"enum": ["a"]}, "a", "a"),
    ],
    ids=repr,
)
def test_a_value_that_spells_the_declared_type_is_read_as_it(kind: Any, given_value: Any, value: Any) -> None:
    found = as_declared({"n": given_value}, a_tool(n=kind))

    assert found == {"n": value}
    assert type(found["n"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "given_value"),
    [
        ("integer", "2.7"),
        ("integer", 2.7),
        ("integer", True),
        ("integer", "true"),
        ("integer", "five"),
        ("integer", "1_000"),
        ("integer", "0x10"),
        ("integer", '"5"'),
        ("integer", "1" * 400),
        ("number", "0.35 $/hr"),
        ("number", "NaN"),
        ("number", "Infinity"),
        ("number", "1e999"),
        ("number", False),
        ("number", ""),
        ("number", [1]),
        ("boolean", "yes"),
        ("boolean", "1"),
        ("boolean", 0),
        ("boolean", ""),
        ("string", True),
        ("string", {"a": 1}),
        ("string", ["a"]),
        ("array", '["a"'),
        ("array", '{"a":1}'),
        ("object", '{"a":'),
        ("object", "[]"),
    ],
    ids=repr,
)
def test_a_value_that_does_not_is_an_error_that_names_it(kind: str, given_value: Any) -> None:
    with pytest.raises(ValueError, match=r"^n must be (a|an|true)\b.*, not "):
        as_declared({"n": given_value}, a_tool(n=kind))


@pytest.mark.parametrize("value", [None, "null", "None"], ids=repr)
def test_a_null_leaves_an_optional_argument_out_and_a_required_one_missing(value: Any) -> None:
    assert as_declared({"n": value}, a_tool(n="integer")) == {}
    with pytest.raises(ValueError, match=r"^n (is missing|must be a whole number, not .*)$"):
        as_declared({"n": value}, a_tool(("n",), n="integer"))


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(ValueError, match=r"^offer_id is missing$"):
        as_declared({"reason": "x"}, a_tool(("offer_id",), offer_id="string", reason="string"))


@pytest.mark.parametrize(
    "wrapped",
    [
        {"arguments": {"n": "2"}},
        {"parameters": {"n": 2}},
        {"arguments": '{"n": 2}'},
        {"name": "act", "arguments": {"n": 2}},
    ],
    ids=repr,
)
def test_arguments_that_were_wrapped_once_more_are_unwrapped(wrapped: JsonObject) -> None:
    assert as_declared(wrapped, a_tool(("n",), n="integer")) == {"n": 2}


@pytest.mark.parametrize(
    "not_wrapped",
    [
        {"arguments": {"n": 2}, "n": 1},
        {"arguments": {"n": 2}, "other": 1},
        {"name": "another", "arguments": {"n": 2}},
        {"arguments": '{"n": '},
        {"arguments": [1]},
        {"arguments": {"n": 2}, "parameters": {"n": 3}},
    ],
    ids=repr,
)
def test_what_is_more_than_a_wrapper_stays_as_it_is(not_wrapped: JsonObject) -> None:
    assert as_declared(not_wrapped, a_tool(n="integer")) == not_wrapped


def test_a_tool_that_declares_such_a_name_gets_it_as_it_is() -> None:
    given_value = {"arguments": {"n": 2}}

    assert as_declared(given_value, a_tool(arguments="object", n="integer")) == given_value


def test_unknown_names_are_kept_and_can_be_told() -> None:
    tool = a_tool(n="integer")

    assert as_declared({"n": 1, "dry_run": "true"}, tool) == {"n": 1, "dry_run": "true"}
    assert unknown_names({"n": 1, "dry_run": "true"}, tool) == ["dry_run"]
    assert names(tool) == ("n",)


KINDS = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1e3", "[]", "null"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(VALUES, st.lists(KINDS, min_size=1, max_size=3))
def test_whatever_comes_it_is_of_a_declared_type_or_an_error_and_fits_again(value: Any, kinds: list[str]) -> None:
    tool = a_tool(n=kinds)
    try:
        found = as_declared({"n": value}, tool)
    except ValueError:
        return

    assert as_declared(found, tool) == found
    types: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "array": list, "object": dict}
    if found and found["n"] is not None and not isinstance(found["n"], bool):
        assert any(isinstance(found["n"], types[kind]) for kind in kinds if kind in types)
    if found and isinstance(found["n"], bool):
        assert "boolean" in kinds
