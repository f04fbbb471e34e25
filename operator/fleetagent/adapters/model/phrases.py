"""The sentences by which servers can be understood when their fields say nothing. All match lower-case text."""

import re
from collections.abc import Iterable


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives))


QUOTA = _any(
    r"exceeded your current quota",
    r"insufficient[ _](quota|balance|credits?|funds)",
    r"budget has been exceeded",
    r"exceededbudget",
    r"billing hard limit",
)

LOADING = _any(
    r"(?<!error )(?<!failed )(?<!while )\bloading (the )?model",
    r"model\b.{0,120}? is (currently |still )?(loading|being loaded|starting|warming up)\b",
)
"""A model that failed to load is none that loads: no patience helps there."""

NOT_READY = _any(
    r"no (healthy )?deployments? available",
    r"no healthy (deployments?|upstream|endpoints?)",
    r"no available workers?",
    r"\boverloaded\b",
    r"temporarily unavailable",
    r"at capacity",
    r"\bconnection error\b",  # LiteLLM: the server behind it does not answer
)

RATE = _any(
    r"rate[ _-]?limit",
    r"too many requests",
    r"too many tokens, please wait",
    r"(please )?(try again|retry) (in|after) [\d.]+ ?(ms|s|m|h|second|minute)",
    r"\bthrottl",
    r"resource[ _]exhausted",
)

ABOVE_THE_RATE = re.compile(r"request too large for .{0,200}tokens per min")

OVERFLOW = _any(
    r"litellm\.contextwindowexceedederror",
    r"context length is only \d",
    r"longer than the (model's (maximum )?context|maximum model) length",
    r"exceeds? (the |this )?(model's )?(available |maximum )?context (size|window|length|limit)",
    r"larger than the max(imum)? context size",
    r"context (size|length|window) (has been )?exceeded",
    r"context shift is disabled",
    r"requested token count exceeds",
    r"max_(completion_)?tokens must be at least 1, got (-|0)",
    r"(input|prompt) (length|tokens?|token count).{0,40} exceeds?\b",
    r"(prompt|input) is too long\b",
    r"reduce the length of (the|your) (messages|input|prompt)",
    r"greater than the context length",
    r"exceeded model token limit",
    r"too large for model with .{0,40}maximum context length",
    r"`?inputs`? (tokens \+ `?max_new_tokens`? )?must (be <=|have less than) \d",
)
_WINDOW_NAMED = re.compile(r"maximum (context|model|prompt) length (is|of) ?\d")
_TOO_MUCH = _any(r"however", r"you requested", r"resulted in", r"contains \d", r"\bexceed", r"longer", r"reduce the")
"""A sentence that only mentions the window is about something else."""

CACHE_FULL = re.compile(r"context size has been exceeded")
"""llama.cpp: other requests fill the cache that all of them share, so it is not about the size of ours."""

FILTERED = _any(r"content[ _](management )?policy", r"content_filter", r"\bresponsibleaipolicy")

NO_TOOLS = _any(
    r"tool choice requires --enable-auto-tool-choice",
    r"does not support (tools|function calling|tool use)",
    r"no endpoints found that support tool use",
)

TURNS = _any(
    r"roles (must|should) (be )?alternat",
    r"must alternate between",
    r"unexpected role '?user'? after role '?tool",
    r"(conversation|first message) must (start with|be|use|have) .{0,20}\buser\b",
)
NO_SYSTEM = _any(
    r"system (role|messages?|prompts?) (is|are)?\s?not supported",
    r"(does not|doesn't) support (a |the )?system (role|messages?|prompts?)",
    r"developer instruction is not enabled",
)
SHORT_IDS = re.compile(r"tool call ids? .{0,120}length (of )?9\b")
"""What chat templates want beyond the protocol, and code can give them."""

TEMPLATE = _any(
    *(pattern.pattern for pattern in (TURNS, NO_SYSTEM, SHORT_IDS)),
    r"no user query found in messages",
    r"system message must be (at|the) ",
    r"only one system message",
    r"must contain either 'content' or 'tool_calls'",
    r"duplicate value for 'tool_call_id'",
    r"must be a response to a prece+ding message",
    r"must be followed by tool messages",
    r"no tool (call|output) found for function call",
    r"tool_call_id.{0,80} not found",
    r"unable to generate parser for this template",
    r"error rendering prompt with jinja template",
    r"chat template",
)

BROKEN_ARGUMENTS = _any(
    r"expecting '.{1,3}' delimiter",
    r"expecting property name enclosed in double quotes",
    r"expecting value: line",
    r"unterminated string starting at",
    r"extra data: line",
    r"failed to parse tool call arguments",
    r"invalid control character at",
)

REFUSED_PARAMETER = _any(
    r"unsupported (parameter|value)",
    r"unrecognized request argument",
    r"unknown (parameter|field|name)",
    r"extra inputs are not permitted",
    r"extra_forbidden",
    r"unexpected keyword argument",
    r"use 'max_completion_tokens' instead",
    r"does not support parameters?",
    r"unsupportedparamserror",
)

NO_SUCH_MODEL = _any(
    r"model\b.{0,120}(does not exist|not found|not available|is not supported|not loaded)",
    r"(unknown|invalid) model",
    r"not a valid model",
    r"no such model",
    r"could not find .{0,40}model",
)

PARAMETER = re.compile(
    r"'loc': \('body', '(\w+)'"
    r"|(?i:(?:parameter|value|argument(?: supplied)?|field|name)s?)\W{1,4}(\w+)"
    r"|\bbody\.(\w+):"
)
"""Names the refused parameter, when `param` does not; read in the original case."""

_COUNT = r"(\d[\d,]*)"
LIMITS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"context length is only {_COUNT}",
        rf"maximum (?:context|prompt|model) length (?:is|of) {_COUNT}",
        rf"context (?:length|size|window) (?:of|is|=)? ?\(?{_COUNT}",
        rf"tokens? ?> ?{_COUNT} (?:maximum|tokens)",
        rf"maximum number of tokens allowed \({_COUNT}",
        rf"model token limit: {_COUNT}",
        rf"model with {_COUNT} maximum context length",
        rf"inputs`? (?:tokens \+ `?max_new_tokens`? )?must (?:be <=|have less than) {_COUNT}",
    )
)

PROMPT_SIZES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\({_COUNT} in the messages, \d+ in the completion\)",
        rf"{_COUNT} (?:tokens )?(?:from|in) the (?:input )?messages and",
        rf"your request has {_COUNT} input tokens",
        rf"your messages resulted in {_COUNT} tokens",
        rf"the input \({_COUNT} tokens\)",
    )
)
"""Exact ones only. What newer vLLM calls the input tokens is none: it stops counting at its limit."""


def number(patterns: Iterable[re.Pattern[str]], words: str) -> int | None:
    """The count that the first matching pattern finds."""
    for pattern in patterns:
        found = pattern.search(words)
        if found:
            return int(found.group(1).replace(",", ""))
    return None


def too_long(words: str) -> bool:
    """Whether the server refuses the length of the prompt, and does not just speak of lengths."""
    return bool(OVERFLOW.search(words) or (_WINDOW_NAMED.search(words) and _TOO_MUCH.search(words)))


def cache_full(words: str) -> bool:
    """Whether a shared cache is full: the words that stand for an overflow elsewhere."""
    return bool(CACHE_FULL.search(words))
