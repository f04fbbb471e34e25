"""What a fault calls for: an ordered table of small rules, the first that matches decides. Pure.

The order matters: structured fields, then words about rates, about length, about the prompt's template, then the
HTTP status. Rates stand before length because "too many tokens, please wait" is no overflow; the status stands last
because several servers answer 500 to a prompt that can never succeed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from fleetagent.adapters.model import phrases
from fleetagent.adapters.model.faults import Fault

BAD_REQUEST, UNAUTHORIZED, PAYMENT, FORBIDDEN, NOT_FOUND, WRONG_METHOD = 400, 401, 402, 403, 404, 405
TOO_LARGE, UNPROCESSABLE = 413, 422
WORTH_REPEATING = frozenset({408, 409, 425, 429, 499})
SERVER_ERRORS = range(500, 600)
REDIRECTS = range(300, 400)
SMALLEST_WINDOW_TOKENS = 512
"""No model has less: some servers name their vocabulary, a batch or the letters of a field instead."""


class Verdict(StrEnum):
    """What to do about a failed reply."""

    RETRY = "retry"  # the same request again, later
    SHRINK = "shrink"  # too long
    REPAIR = "repair"  # the request is malformed: no repetition helps
    DEGRADE = "degrade"  # an optional parameter is refused: swap or drop it
    HALT = "halt"  # key, quota, address, content: the owner's turn


class Fix(StrEnum):
    """What code can do about a complaint of the chat template."""

    TURNS = "turns"  # let user and assistant take turns
    NO_SYSTEM = "no system"  # put the system text into the first user message
    SHORT_IDS = "short ids"  # nine letters and digits


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its reason. `parameter` is what to swap or drop; the counts are the server's own."""

    verdict: Verdict
    reason: str
    parameter: str = ""
    fix: Fix | None = None
    prompt_tokens: int | None = None
    limit_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table."""

    reason: str
    verdict: Verdict
    matches: Callable[[Fault], bool]


def judge(fault: Fault) -> Judgement:
    """The first rule that matches decides; what no rule knows is a bad request."""
    rule = next(rule for rule in RULES if rule.matches(fault))
    limit = fault.limit_tokens or phrases.number(phrases.LIMITS, fault.words)
    return Judgement(
        rule.verdict,
        rule.reason,
        parameter=_parameter(fault) if rule.verdict in {Verdict.DEGRADE, Verdict.REPAIR} else "",
        fix=next((fix for fix, pattern in FIXES if pattern.search(fault.words)), None)
        if rule.verdict is Verdict.REPAIR
        else None,
        prompt_tokens=fault.prompt_tokens or phrases.number(phrases.PROMPT_SIZES, fault.words),
        limit_tokens=limit if limit is not None and limit >= SMALLEST_WINDOW_TOKENS else None,
    )


def _named(*words: str) -> Callable[[Fault], bool]:
    """The server says so in `error.code` or `error.type`."""
    return lambda fault: fault.code in words or fault.kind in words


def _says(pattern: re.Pattern[str], statuses: frozenset[int] | None = None) -> Callable[[Fault], bool]:
    """The server's sentence holds one of these phrases."""
    return lambda fault: (statuses is None or fault.status in statuses) and bool(pattern.search(fault.words))


def _status(*statuses: int) -> Callable[[Fault], bool]:
    return lambda fault: fault.status in statuses


def _parameter(fault: Fault) -> str:
    """The parameter a refusal is about: the first word of its path, from `param` or from the sentence."""
    found = phrases.PARAMETER.search(fault.message)
    named = next(filter(None, found.groups()), "") if found else ""
    return fault.param.split(".")[0] or named


REQUEST_STATUSES = frozenset({BAD_REQUEST, NOT_FOUND, UNPROCESSABLE})
REQUEST_STATUSES_AND_500 = REQUEST_STATUSES | {500}

FIXES = ((Fix.TURNS, phrases.TURNS), (Fix.NO_SYSTEM, phrases.NO_SYSTEM), (Fix.SHORT_IDS, phrases.SHORT_IDS))

STRUCTURED: tuple[Rule, ...] = (
    Rule("QuotaExceeded", Verdict.HALT, _named("insufficient_quota", "budget_exceeded", "billing_hard_limit_reached")),
    Rule("KeyMayNotUseModel", Verdict.HALT, _named("key_model_access_denied", "team_model_access_denied")),
    Rule(
        "KeyRefused",
        Verdict.HALT,
        _named("invalid_api_key", "authentication_error", "token_not_found_in_db", "expired_key"),
    ),
    Rule("ContentFiltered", Verdict.HALT, _named("content_filter", "content_policy_violation")),
    Rule("PromptTooLong", Verdict.SHRINK, _named("context_length_exceeded", "exceed_context_size_error")),
    Rule(
        "PromptTooLong",
        Verdict.SHRINK,
        lambda fault: fault.status == BAD_REQUEST and fault.param in {"input_tokens", "input_text"},
    ),
    # One request larger than the allowance of a minute: no wait makes it pass.
    Rule("PromptTooLong", Verdict.SHRINK, lambda fault: bool(phrases.ABOVE_THE_RATE.search(fault.words))),
    # By its words, since its type is that of any server which is not ready.
    Rule("ModelLoading", Verdict.RETRY, _says(phrases.LOADING)),
    Rule("RateLimited", Verdict.RETRY, _named("rate_limit_exceeded", "rate_limit_error", "slow_down")),
    Rule(
        "NotReady",
        Verdict.RETRY,
        _named("unavailable_error", "service_unavailable_error", "no_available_workers", "overloaded_error"),
    ),
    Rule("ParameterRefused", Verdict.DEGRADE, _named("unsupported_parameter", "unsupported_value", "extra_forbidden")),
    Rule("ModelNotFound", Verdict.HALT, _named("model_not_found", "model_not_available")),
    Rule(
        "ModelNotFound",
        Verdict.HALT,
        lambda fault: fault.kind == "notfounderror" and "model" in fault.words,
    ),
    Rule("ServerSaysNo", Verdict.HALT, lambda fault: fault.should_retry == "false" and fault.status in SERVER_ERRORS),
    Rule("ServerSaysRetry", Verdict.RETRY, lambda fault: fault.should_retry == "true"),
)

WORDS_ABOUT_RATES: tuple[Rule, ...] = (
    Rule("QuotaExceeded", Verdict.HALT, _says(phrases.QUOTA)),
    Rule("NotReady", Verdict.RETRY, _says(phrases.NOT_READY)),
    Rule("RateLimited", Verdict.RETRY, _says(phrases.RATE)),
)

WORDS_ABOUT_LENGTH: tuple[Rule, ...] = (
    Rule("CacheFull", Verdict.RETRY, lambda fault: fault.status in SERVER_ERRORS and phrases.cache_full(fault.words)),
    Rule("PromptTooLong", Verdict.SHRINK, lambda fault: phrases.too_long(fault.words)),
)

WORDS_ABOUT_THE_PROMPT: tuple[Rule, ...] = (
    Rule("ContentFiltered", Verdict.HALT, _says(phrases.FILTERED)),
    Rule("ToolsUnsupported", Verdict.HALT, _says(phrases.NO_TOOLS)),
    Rule("MalformedHistory", Verdict.REPAIR, _says(phrases.TEMPLATE)),
    Rule("MalformedHistory", Verdict.REPAIR, _says(phrases.BROKEN_ARGUMENTS, REQUEST_STATUSES_AND_500)),
    Rule("ParameterRefused", Verdict.DEGRADE, _says(phrases.REFUSED_PARAMETER, REQUEST_STATUSES_AND_500)),
    Rule("ModelNotFound", Verdict.HALT, _says(phrases.NO_SUCH_MODEL, REQUEST_STATUSES)),
)

STATUSES: tuple[Rule, ...] = (
    Rule("KeyRefused", Verdict.HALT, _status(UNAUTHORIZED, FORBIDDEN)),
    Rule("QuotaExceeded", Verdict.HALT, _status(PAYMENT)),
    Rule("BadURL", Verdict.HALT, _status(NOT_FOUND, WRONG_METHOD, *REDIRECTS)),
    Rule("PromptTooLong", Verdict.SHRINK, _status(TOO_LARGE)),
    # Hosts that answer an empty 400 do so when the prompt is too long.
    Rule("PromptTooLong", Verdict.SHRINK, lambda f: f.status == BAD_REQUEST and f.bare and not f.message),
    Rule("RateLimited", Verdict.RETRY, _status(429)),
    Rule("NotReady", Verdict.RETRY, _status(502, 503, 504)),
    Rule("ServerError", Verdict.RETRY, _status(*WORTH_REPEATING, *SERVER_ERRORS)),
    Rule("BadRequest", Verdict.REPAIR, lambda _: True),
)

RULES = (*STRUCTURED, *WORDS_ABOUT_RATES, *WORDS_ABOUT_LENGTH, *WORDS_ABOUT_THE_PROMPT, *STATUSES)
