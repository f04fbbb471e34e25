"""The names of all faults, by call. `docs/how-to/play-market-faults.md` explains each."""

from collections.abc import Mapping

BEFORE = frozenset(
    {
        "http_500",
        "http_401",
        "http_403",
        "bad_key",
        "html",
        "html_200",
        "empty_string",
        "empty_object",
        "truncated",
        "success_false",
        "rate_429",
        "rate_429_json",
        "timeout",
    }
)
"""The answer comes before anything has happened."""

AFTER = frozenset({"slow", "done_then_timeout"})
"""What was asked for has happened; only the answer is late, or never comes."""

PLAIN = BEFORE | AFTER
ROWS = frozenset({"hostile", "odd_numbers"})
"""Rows whose texts or numbers are not what a client hopes for."""

KINDS: Mapping[str, frozenset[str]] = {
    "search": PLAIN | ROWS | {"ignores_filter", "no_offers", "dearer", "quota"},
    "create": PLAIN
    | {
        "created_late",
        "created_then_504",
        "created_then_reset",
        "created_then_no_id",
        "created_then_error_with_id",
        "no_such_ask_404",
        "no_such_ask_410",
        "no_such_ask_400",
        "no_such_ask_409",
        "no_such_ask_200",
        "insufficient_credit",
        "spend_rate_limit",
        "dearer",
        "other_gpu",
    },
    "list": PLAIN
    | ROWS
    | {"http_410", "deprecated_200", "null_instances", "half_page", "partial", "one_missing", "empty_list"},
    "show": PLAIN | ROWS | {"null_instance"},
    "update": PLAIN | {"ignored", "queued"},
    "destroy": PLAIN | {"ignored", "destroyed_then_504", "destroyed_then_reset"},
    "destroy_many": PLAIN | {"ignored", "partly", "destroyed_then_504", "destroyed_then_reset"},
    "reboot": PLAIN | {"ignored"},
    "logs": PLAIN | {"never_ready"},
    "price_rises": PLAIN,
    "price_answer": PLAIN | {"ignored"},
    "account": PLAIN | {"other_account"},
    "worker": frozenset({"silent", "weak", "repeats", "late"}),
}
"""What can go wrong with each call; `worker` is about the program of the next machines that boot."""

CALLS = (
    "search",
    "create",
    "create_many",
    "list",
    "old_list",
    "filters",
    "show",
    "update",
    "start_many",
    "destroy",
    "destroy_many",
    "reboot",
    "logs",
    "price_rises",
    "price_answer",
    "account",
)
"""Every call that is counted and paced."""
