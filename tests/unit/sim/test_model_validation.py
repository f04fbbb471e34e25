"""Each rule of the strict model server: a request in order passes, a broken one is refused by the rule's name."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from fleetagent.sim.model.parse import read
from fleetagent.sim.model.personality import PERSONALITIES
from support.chat_bodies import Json, body, called, result, said, system, tool, user


def in_order() -> Json:
    """Two runs, the first with two parallel calls, the second waiting for its first reply."""
    return body(
        system(),
        user("Run 6."),
        called(("c1", "get_fleet", {}), ("c2", "get_demand", {})),
        result("c1", {"instances": []}),
        result("c2", {"active": True}),
        said("Hold."),
        user("The operator says: prefer the EU."),
        user("Run 7."),
        called(("c3", "plan_capacity", {})),
        result("c3", {"hold": True}),
    )


def rules_broken(request: object, personality: str = "strict") -> list[str]:
    return [violation.rule for violation in read(request, PERSONALITIES[personality]).violations]


def at(*path: Any, value: Any) -> Callable[[Json], None]:
    """Set one value deep inside a request."""

    def change(request: Json) -> None:
        inner: Any = request
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value

    return change


def without(*path: Any) -> Callable[[Json], None]:
    def change(request: Json) -> None:
        inner: Any = request
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]

    return change


def messages(*new: Json) -> Callable[[Json], None]:
    return at("messages", value=list(new))


CALL = ("messages", 2, "tool_calls", 0)
LATE_SYSTEM = messages(system(), user(), said(), system("now"), user())

BROKEN: list[tuple[str, str, Callable[[Json], None]]] = [
    ("unknown parameter", "unknown_parameter", at("store", value=True)),
    ("no model", "parameter", without("model")),
    ("model is no name", "parameter", at("model", value="")),
    ("no room for the answer", "parameter", at("max_tokens", value=0)),
    ("room as text", "parameter", at("max_tokens", value="512")),
    ("room said twice", "parameter", at("max_completion_tokens", value=512)),
    ("too hot", "parameter", at("temperature", value=2.5)),
    ("two answers", "parameter", at("n", value=2)),
    ("a stream", "parameter", at("stream", value=True)),
    ("format beside tools", "response_format_with_tools", at("response_format", value={"type": "json_object"})),
    ("choice without tools", "tools_missing", lambda b: (b.pop("tools"), b.update(tool_choice="none"))[0]),
    ("choice of nothing", "tool_choice", at("tool_choice", value="sometimes")),
    (
        "choice of an unknown tool",
        "tool_choice",
        at("tool_choice", value={"type": "function", "function": {"name": "dance"}}),
    ),
    ("no tools in the list", "tools", at("tools", value=[])),
    ("tool without parameters", "tools", without("tools", 0, "function", "parameters")),
    ("tool whose parameters are a list", "tools", at("tools", 0, "function", "parameters", value=[])),
    ("tool with an odd name", "tools", at("tools", 0, "function", "name", value="get fleet")),
    ("tool with an extra key", "tools", at("tools", 0, "function", "cost", value=1)),
    ("two tools of one name", "tools", at("tools", 1, value=tool("get_fleet"))),
    ("required but not there", "tools", at("tools", 0, "function", "parameters", "required", value=["x"])),
    ("no messages", "messages", at("messages", value=[])),
    ("a message as text", "messages", at("messages", 1, value="hello")),
    ("unknown role", "role", at("messages", 1, "role", value="developer")),
    ("a field of another provider", "message_field", at("messages", 5, "reasoning_content", value="hm")),
    ("list content", "list_content", at("messages", 1, "content", value=[{"type": "text", "text": "Run 6."}])),
    ("content is a number", "content", at("messages", 1, "content", value=6)),
    ("null content of a user", "content", at("messages", 1, "content", value=None)),
    ("null content beside calls", "null_content", at("messages", 2, "content", value=None)),
    ("no content beside calls", "null_content", without("messages", 2, "content")),
    ("empty content beside calls", "empty_content", at("messages", 2, "content", value="")),
    ("empty result", "empty_content", at("messages", 3, "content", value="")),
    ("assistant without text or calls", "empty_assistant", at("messages", 5, "content", value=" ")),
    ("assistant with null and no calls", "empty_assistant", at("messages", 5, "content", value=None)),
    ("no system message", "system_first", without("messages", 0)),
    ("a late system message", "late_system", LATE_SYSTEM),
    ("nobody asked", "no_user_message", messages(system(), called(("c1", "get_fleet", {})), result("c1", "{}"))),
    ("only an empty user message", "no_user_message", messages(system(), user(" "))),
    ("no calls in the list", "tool_calls", at("messages", 2, "tool_calls", value=[])),
    ("calls are null", "tool_calls", at("messages", 5, "tool_calls", value=None)),
    ("call without a type", "tool_calls", without(*CALL, "type")),
    ("call without an id", "call_id_missing", without(*CALL, "id")),
    ("call with an empty id", "call_id_missing", at(*CALL, "id", value="")),
    ("call id of 41 characters", "call_id_too_long", at(*CALL, "id", value="x" * 41)),
    (
        "an id twice in a message",
        "call_id_repeated",
        messages(system(), user(), called(("a", "get_fleet", {}), ("a", "get_demand", {})), result("a", "{}")),
    ),
    (
        "an id again in a later run",
        "call_id_repeated",
        lambda b: (
            at("messages", 8, "tool_calls", 0, "id", value="c1")(b),
            at("messages", 9, "tool_call_id", value="c1")(b),
        )[0],
    ),
    ("a tool's name with a dot", "call_name", at(*CALL, "function", "name", value="fleet.get")),
    ("arguments as an object", "arguments", at(*CALL, "function", "arguments", value={})),
    ("arguments cut off", "arguments", at(*CALL, "function", "arguments", value='{"a": "b')),
    ("arguments empty", "arguments", at(*CALL, "function", "arguments", value="")),
    ("arguments are a list", "arguments", at(*CALL, "function", "arguments", value="[]")),
    ("arguments with NaN", "arguments", at(*CALL, "function", "arguments", value='{"a": NaN}')),
    ("a call without a result", "call_unanswered", without("messages", 3)),
    ("the last call without a result", "call_unanswered", lambda b: b["messages"].__setitem__(9, user("and?"))),
    ("calls at the end", "call_unanswered", without("messages", 9)),
    ("a result too many", "result_repeated", lambda b: b["messages"].insert(5, result("c1", "{}"))),
    ("a result of no call", "orphan_result", lambda b: b["messages"].insert(2, result("c0", "{}"))),
    ("a result that comes late", "call_unanswered", lambda b: b["messages"].insert(7, b["messages"].pop(4))),
    ("a result without an id", "tool_call_id", without("messages", 3, "tool_call_id")),
    ("two assistants at the end", "assistants_at_end", messages(system(), user(), said("a"), said("b"))),
    ("an assistant at the end", "last_message", messages(system(), user(), said("a"))),
    ("a NUL in a result", "nul", at("messages", 3, "content", value="a\x00b")),
    ("a NUL in a parameter", "nul", at("stop", value=["\x00"])),
    ("a lone surrogate", "lone_surrogate", at("messages", 1, "content", value="Run \ud83d.")),
    ("a lone surrogate in a key", "lone_surrogate", at("chat_template_kwargs", value={"\udc00": 1})),
]


def test_a_request_in_order_breaks_no_rule() -> None:
    assert rules_broken(in_order()) == []
    assert rules_broken(body()) == []


@pytest.mark.parametrize(("rule", "breaking"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_request_is_refused_by_the_rule_that_it_breaks(rule: str, breaking: Callable[[Json], None]) -> None:
    request = deepcopy(in_order())
    breaking(request)

    assert rules_broken(request)[:1] == [rule]


@pytest.mark.parametrize("not_a_request", [None, [], "text", 7])
def test_a_body_that_is_no_object_is_refused(not_a_request: object) -> None:
    assert rules_broken(not_a_request) == ["not_json"]


@pytest.mark.parametrize(
    ("personality", "refused"),
    [
        ("strict", {None, ""}),
        ("openai", set()),
        ("refuses-null", {None}),
        ("refuses-empty", {""}),
        ("alternating", {None, ""}),
        ("llama.cpp", set()),
    ],
)
def test_servers_differ_about_an_assistant_that_calls_and_says_nothing(
    personality: str, refused: set[str | None]
) -> None:
    request = body(system(), user(), called(("c1", "get_fleet", {})), result("c1", "{}"))
    broken = set()
    for content in (None, "", "(calls)"):
        request["messages"][2]["content"] = content
        if rules_broken(request, personality):
            broken.add(content)

    assert broken == refused


LISTS = messages(system(), {"role": "user", "content": [{"type": "text", "text": "Run 6."}]})
ORPHAN = messages(system(), user(), result("c0", "{}"))
NOBODY = messages(system(), called(("c1", "get_fleet", {})), result("c1", "{}"))

HABITS: list[tuple[str, str, Callable[[Json], None]]] = [
    ("refuses-null", "null_content", at("messages", 2, "content", value=None)),
    ("refuses-empty", "empty_content", at("messages", 2, "content", value="")),
    ("refuses-lists", "list_content", LISTS),
    ("system-first", "late_system", LATE_SYSTEM),
    ("needs-user", "no_user_message", NOBODY),
    ("paired-tools", "orphan_result", ORPHAN),
    ("alternating", "alternation", messages(system(), user("one"), user("two"))),
    ("no-system", "system_role", messages(system(), user())),
]


@pytest.mark.parametrize(("personality", "rule", "breaking"), HABITS, ids=[row[0] for row in HABITS])
def test_a_habit_refuses_what_it_is_named_for(personality: str, rule: str, breaking: Callable[[Json], None]) -> None:
    request = in_order()
    breaking(request)

    assert rules_broken(request, personality)[:1] == [rule]


@pytest.mark.parametrize("personality", [row[0] for row in HABITS[:6]])
def test_a_single_habit_takes_what_the_others_refuse(personality: str) -> None:
    for other, _, breaking in HABITS[:6]:
        request = in_order()
        breaking(request)

        assert bool(rules_broken(request, personality)) is (other == personality), other


def test_what_is_in_order_passes_every_server_but_those_that_want_another_order() -> None:
    takes = {name for name in PERSONALITIES if rules_broken(in_order(), name) == []}

    assert PERSONALITIES.keys() - takes == {"alternating", "no-system", "gemma"}


def test_the_system_text_may_stand_in_the_first_user_message_where_there_is_no_system_role() -> None:
    request = body(user("You keep a fleet on target.\n\nRun 7."))

    assert rules_broken(request, "gemma") == []
    assert rules_broken(request, "strict") == ["system_first"]


def test_parts_of_text_are_joined_where_a_list_is_taken() -> None:
    request = body(system(), {"role": "user", "content": [{"type": "text", "text": "Run "}, {"text": "6."}]})

    read_request = read(request, PERSONALITIES["openai"]).request
    assert read_request is not None
    assert read_request.messages[1].text == "Run 6."


def test_only_a_server_that_wants_alternation_refuses_two_user_messages_in_a_row() -> None:
    assert rules_broken(in_order(), "strict") == []
    assert rules_broken(in_order(), "alternating") == ["alternation"]


def test_calls_and_results_do_not_disturb_alternation() -> None:
    request = in_order()
    del request["messages"][6]

    assert rules_broken(request, "alternating") == []


def test_results_may_come_in_any_order_among_themselves() -> None:
    request = in_order()
    request["messages"][3], request["messages"][4] = request["messages"][4], request["messages"][3]

    assert rules_broken(request) == []
