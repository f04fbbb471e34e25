"""Finds tool calls that a model wrote as text because its server has no parser for them. Pure and strict.

Only model output is read, only whole blocks at its very end count, only tools that were offered, only arguments that
fit what they declare; if one block is wrong, none counts, and the reply says why: it is no answer either.
What stands in a code fence, in backticks or behind a quotation mark explains a call and is none; a fence at the very
end is asked about, since small models dress their calls so.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleetagent.domain.arguments import compact, decoded, decoded_at, harmless, parsed_arguments
from fleetagent.domain.conversation.declared import as_declared, unknown_names
from fleetagent.domain.conversation.spoken import CALL_MARK
from fleetagent.domain.model import CallsFrom, JsonObject, RawCall, Reply
from fleetagent.domain.text import neutral

log = logging.getLogger(__name__)

OPENER, CLOSER, FENCE = "<tool_call>", "</tool_call>", "```"
CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
QUOTES = frozenset("\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb")
BARE_JSON = re.compile(r"^[ \t]*\{", re.MULTILINE)
FUNCTION = re.compile(r"<function=([\w.-]{1,80})>(.*?)</function>", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([\w.-]{1,80})>\n?(.*?)\n?</parameter>", re.DOTALL)
SPACE = re.compile(r"\s*")
LONGEST_READ_CHARS = 20_000


class _NoCallError(ValueError):
    """What the text holds counts as no call; the words say why."""


def with_calls_from_text(reply: Reply, tools: Sequence[JsonObject]) -> Reply:
    """The reply with the calls that stand in its text, or in its reasoning when it has no text.

    When there is something like a call that can't be taken as one, it is the reply as it is, with `unread` set.
    """
    source = reply.text or reply.reasoning
    if reply.calls or reply.cut_off or not tools or not source:
        return reply
    where = CallsFrom.TEXT if reply.text else CallsFrom.REASONING
    offered = {str(_function(tool).get("name")): _function(tool) for tool in tools}
    try:
        found = _trailing_calls(source, offered)
    except _NoCallError as problem:
        log.warning("a tool call in the %s was not taken: %s", where, problem)
        return replace(reply, unread=f"the call in your answer was not taken, {problem}")
    if found is None:
        return reply
    words, calls = found
    log.warning("took %d tool call(s) from the %s: the server's tool parser does not fit the model", len(calls), where)
    return replace(reply, text=words if reply.text else "", calls=calls, calls_from=where)


def _trailing_calls(source: str, offered: Mapping[str, JsonObject]) -> tuple[str, tuple[RawCall, ...]] | None:
    """The words before the calls, and the calls; None when nothing looks like one."""
    start = _start(source, offered)
    if start is None:
        return None
    if len(source) - start > LONGEST_READ_CHARS:
        raise _NoCallError("since it is too long")
    calls, place = [], start
    while place < len(source):
        call, place = _block(source, place, offered)
        calls.append(call)
    return source[:start].strip(), tuple(calls)


def _start(source: str, offered: Mapping[str, JsonObject]) -> int | None:
    """Where the first block begins. A server may have swallowed the opener: then it is the JSON before a closer."""
    mark = next(_marks(source), None)
    if mark is None:
        fenced = _fenced_at_end(source)
        if CALL_MARK.search(fenced):
            raise _NoCallError("since it stood in a code block")
        if _is_bare_call((fenced or source).strip(), offered):
            raise _NoCallError("since it came as plain JSON")
        return None
    if mark.group() != CLOSER:
        return mark.start()
    bare = BARE_JSON.search(source, 0, mark.start())
    if bare is None:
        raise _NoCallError("since it has an end and no beginning")
    return bare.start()


def _marks(source: str) -> Iterator[re.Match[str]]:
    """The marks of calls that are meant, not quoted: a block in quotation marks is quoted up to its end."""
    code = [found.span() for found in CODE.finditer(source)][::-1]
    in_quotes = False
    for mark in CALL_MARK.finditer(source):
        while code and code[-1][1] <= mark.start():
            code.pop()
        if code and code[-1][0] <= mark.start():
            continue
        if in_quotes:
            in_quotes = mark.group() != CLOSER
        elif not (mark.start() and source[mark.start() - 1] in QUOTES):
            yield mark
        else:
            in_quotes = mark.group() != CLOSER and source[mark.end() : mark.end() + 1] not in QUOTES


def _fenced_at_end(source: str) -> str:
    """What stands in the code fence that ends the text, also in one that is not closed; else nothing."""
    text = source.rstrip()
    closed = text.endswith(FENCE)
    if text.count(FENCE) % 2 == closed:
        return ""
    inside = text.removesuffix(FENCE).rpartition(FENCE)[2]
    return inside.partition("\n")[2]


def _is_bare_call(text: str, offered: Mapping[str, JsonObject]) -> bool:
    """Whether this is the JSON of a call and nothing else, as some templates write it."""
    if not text.startswith("{") or len(text) > LONGEST_READ_CHARS:
        return False
    try:
        stated = decoded(text)
    except ValueError:
        return False
    if not isinstance(stated, dict) or not isinstance(stated.get("name"), str):
        return False
    return stated["name"] in offered and ("arguments" in stated or "parameters" in stated)


def _block(source: str, start: int, offered: Mapping[str, JsonObject]) -> tuple[RawCall, int]:
    """The call in the block that begins here, and where the next one begins."""
    place = _after(source, start, OPENER)
    function = FUNCTION.match(source, place)
    if function:
        name, arguments = function[1], _parameters(function[2])
        end = _after(source, function.end(), CLOSER)
    elif source.startswith("{", place):
        try:
            stated, place = decoded_at(source, place)
        except ValueError as error:
            raise _NoCallError(f"since its JSON can't be read: {error}") from error
        name, arguments = _stated(stated)
        end = _after(source, place, CLOSER)
        if not source[place:end].strip():
            raise _NoCallError(f"since {CLOSER} is missing after it")
    else:
        raise _NoCallError("since it is not whole, or words follow it")
    return RawCall(name, _fitted(name, arguments, offered), source[start:end].strip()), end


def _after(source: str, place: int, mark: str) -> int:
    """The place behind the mark, if it is next, and behind the white space around it."""
    space = SPACE.match(source, place)
    place = space.end() if space else place
    if not source.startswith(mark, place):
        return place
    return _after(source, place + len(mark), "\0")


def _stated(stated: Any) -> tuple[str, JsonObject]:
    """Name and arguments of a call in Hermes' form."""
    if not isinstance(stated, dict) or not isinstance(stated.get("name"), str):
        raise _NoCallError("since it names no tool")
    arguments = stated.get("arguments", stated.get("parameters"))
    try:
        arguments = parsed_arguments(arguments) if isinstance(arguments, str | None) else harmless(arguments)
    except ValueError as error:
        raise _NoCallError(f"since its arguments {error}") from error
    if not isinstance(arguments, dict):
        raise _NoCallError("since its arguments are not a JSON object")
    return stated["name"], arguments


def _parameters(inside: str) -> JsonObject:
    """Qwen's XML has no types: each value is a text, until the tool's declaration says what it spells."""
    if PARAMETER.sub("", inside).strip():
        raise _NoCallError("since there is text between its parameters")
    pairs = PARAMETER.findall(inside)
    if len(dict(pairs)) < len(pairs):
        raise _NoCallError("since it names one parameter twice")
    return dict(pairs)


def _fitted(name: str, arguments: JsonObject, offered: Mapping[str, JsonObject]) -> str:
    if name not in offered:
        raise _NoCallError(f"since there is no tool named {neutral(name, 64)!r}; the tools are: {', '.join(offered)}")
    if unknown := unknown_names(arguments, offered[name]):
        raise _NoCallError(f"since {name} has no argument {', '.join(unknown)}")
    try:
        return compact(as_declared(arguments, offered[name]))
    except ValueError as error:
        raise _NoCallError(f"since in {name} {error}") from error


def _function(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    return function if isinstance(function, dict) else {}
