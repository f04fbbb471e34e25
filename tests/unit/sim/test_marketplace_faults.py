import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from fleetagent.sim.marketplace.draws import Draws
from fleetagent.sim.marketplace.errors import Refused, TooOften
from fleetagent.sim.marketplace.faults import FaultBoard
from fleetagent.sim.marketplace.kinds import KINDS
from fleetagent.sim.marketplace.pacing import Pacer


def a_board(faults: dict[str, object], *, reliable: bool = True) -> FaultBoard:
    return FaultBoard(Draws(7), reliable=reliable, initial=faults)


def taken(board: FaultBoard, call: str, times: int) -> list[str | None]:
    switches = [board.take(call) for _ in range(times)]
    return [switch.kind if switch else None for switch in switches]


def test_a_bare_name_stays_on_until_cleared() -> None:
    board = a_board({"list": "http_500"})

    assert taken(board, "list", 3) == ["http_500"] * 3
    board.replace({})
    assert taken(board, "list", 1) == [None]


def test_a_counted_switch_ends_and_the_next_in_line_follows() -> None:
    board = a_board({"create": [{"kind": "created_then_504", "times": 2}, {"kind": "slow", "times": 1}]})

    assert taken(board, "create", 4) == ["created_then_504", "created_then_504", "slow", None]


def test_a_switch_can_let_calls_pass_first_and_touches_no_other_call() -> None:
    board = a_board({"list": {"kind": "partial", "times": 1, "skip": 2}})

    assert taken(board, "show", 1) == [None]
    assert taken(board, "list", 4) == [None, None, "partial", None]


@pytest.mark.parametrize(
    "faults",
    [
        {"list": "explode"},
        {"teleport": "http_500"},
        {"list": {"kind": "http_500", "times": 0}},
        {"list": {"kind": "http_500", "forever": True}},
        {"read_lag": {"create_seconds": -1}},
    ],
)
def test_a_bad_description_is_refused_and_changes_nothing(faults: dict[str, object]) -> None:
    board = a_board({"list": "http_500"})

    with pytest.raises(ValidationError):
        board.replace(faults)

    assert taken(board, "list", 1) == ["http_500"]


def test_only_an_unreliable_market_fails_by_chance_and_seldom() -> None:
    by_chance = [kind for kind in taken(a_board({}, reliable=False), "list", 2000) if kind]

    assert taken(a_board({}), "list", 2000) == [None] * 2000
    assert set(by_chance) == {"http_500", "html"}
    assert 10 <= len(by_chance) <= 60


def test_calls_below_the_interval_are_refused_per_account_and_call() -> None:
    pacer = Pacer(enabled=True, searches_per_day=None)
    pacer.admit("1", "list", 100.0)
    pacer.admit("2", "list", 100.1)
    pacer.admit("1", "destroy", 100.1)

    with pytest.raises(TooOften, match="too frequent"):
        pacer.admit("1", "list", 100.5)
    pacer.admit("1", "list", 101.0)


def test_an_early_create_puts_the_next_one_off_by_a_penalty() -> None:
    pacer = Pacer(enabled=True, searches_per_day=None)
    pacer.admit("1", "create", 100.0)

    with pytest.raises(TooOften) as refusal:
        pacer.admit("1", "create", 101.0)

    assert refusal.value.retry_after_s == pytest.approx(12.0)
    with pytest.raises(TooOften):
        pacer.admit("1", "create", 106.0)


def test_ten_searches_a_minute_pass_and_the_daily_quota_ends_them() -> None:
    pacer = Pacer(enabled=True, searches_per_day=12)
    for n in range(10):
        pacer.admit("1", "search", 100.0 + n)

    with pytest.raises(TooOften, match="too frequent"):
        pacer.admit("1", "search", 110.0)
    pacer.admit("1", "search", 160.0)
    with pytest.raises(Refused) as refusal:
        pacer.admit("1", "search", 1000.0)
    assert refusal.value.body["error"] == "search_quota_exceeded"
    assert refusal.value.headers == {"X-RateLimit-Reset": "86400"}


def test_a_market_without_limits_lets_everything_pass() -> None:
    pacer = Pacer(enabled=False, searches_per_day=None)

    for _ in range(100):
        pacer.admit("1", "create", 100.0)
        pacer.admit("1", "search", 100.0)


def test_every_fault_is_explained_where_people_look_for_it() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "play-market-faults.md").read_text(encoding="utf-8")
    words = set(re.findall(r"`(\w+)`", page))
    named = {f"no_such_ask{word}" for word in words if word.startswith("_")} | words

    assert {name for kinds in KINDS.values() for name in kinds} - named == set()
    assert set(KINDS) - named == set()


def test_a_switch_ends_with_its_time_and_may_spoil_only_some_calls() -> None:
    now = [100.0]
    faults = {"list": {"kind": "html", "for_seconds": 60}, "show": {"kind": "html", "every": 3}}
    board = FaultBoard(Draws(7), reliable=True, initial=faults, wall=lambda: now[0])
    during = taken(board, "list", 2)
    now[0] = 160.0

    assert during == ["html", "html"]
    assert taken(board, "list", 2) == [None, None]
    assert taken(board, "show", 6) == [None, None, "html", None, None, "html"]
