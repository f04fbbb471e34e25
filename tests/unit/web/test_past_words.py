"""What the pages of the past make of what is stored, before it is HTML."""

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.fleet import Phase
from fleetagent.domain.views import MachineView, MessageView, PhaseAt, SpendView
from fleetagent.entrypoints.web.page.pretty import LINE_CHARS, MOST_CHARS, pretty
from fleetagent.entrypoints.web.page.spend import HEIGHT, every_day, plot
from fleetagent.entrypoints.web.page.steps import steps
from fleetagent.entrypoints.web.page.timeline import LEAST, WIDTH, timeline
from support.door import BEGAN

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.booleans())
def test_pretty_json_says_the_same(value: Any, compact: bool) -> None:  # noqa: FBT001
    text = json.dumps(value, separators=(",", ":") if compact else None)

    assert json.loads(pretty(text)) == value


def test_pretty_json_keeps_each_number_as_it_was_written() -> None:
    assert (
        pretty('{"a":0.10000000000000000001,"b":1e400,"a":-0}') == '{"a": 0.10000000000000000001, "b": 1e400, "a": -0}'
    )


def test_only_long_json_is_broken_into_lines() -> None:
    row = {"offer_id": "7001", "gpu": "1x RTX 5090", "usd_per_hour": "0.4635"}

    lines = pretty(json.dumps({"offers": [row, row, row], "none": [], "shown": "3 of 3"})).splitlines()

    assert lines[:3] == ["{", '  "offers": [', f"    {json.dumps(row)},"]
    assert lines[-3:] == ['  "none": [],', '  "shown": "3 of 3"', "}"]
    assert max(map(len, lines)) <= LINE_CHARS


@pytest.mark.parametrize("text", ["", "plain", "{broken", "[" * 5000, "{" + '"a":' * 9, '["a" "b"]', "\x00{}"])
def test_what_is_no_json_stays_as_it_is(text: str) -> None:
    assert pretty(text) == text


def test_a_text_that_nobody_could_read_is_cut_and_says_so() -> None:
    shown = pretty("[" + "1," * MOST_CHARS + "1]")

    assert len(shown) < MOST_CHARS + 100
    assert "cut" in shown[-60:]


def a_machine(*phases: tuple[Phase, float], ended_h: float | None = None) -> MachineView:
    """With the hours before `BEGAN` at which each phase began."""
    begun = tuple(PhaseAt(phase=phase, at=BEGAN - timedelta(hours=before)) for phase, before in phases)
    gone = None if ended_h is None else BEGAN - timedelta(hours=ended_h)
    return MachineView(
        number=1,
        label="fa/x/1",
        phase=begun[-1].phase,
        phase_since=begun[-1].at,
        timeline=begun,
        requested_at=begun[0].at,
        gone_at=gone,
        host_id="h",
        gpu_name="RTX 5090",
        num_gpus=1,
        usd_per_hour=Decimal(1),
        expected_rate=95,
        min_rate=0,
    )


def test_a_timeline_is_as_wide_as_each_phase_took() -> None:
    bars = timeline(a_machine((Phase.REQUESTED, 4), (Phase.LOADING, 3), (Phase.PROVING, 2)), BEGAN)

    assert [(b.phase, b.seconds, b.width) for b in bars] == [
        ("requested", 3600, WIDTH / 4),
        ("loading", 3600, WIDTH / 4),
        ("proving", 7200, WIDTH / 2),
    ]
    assert [b.x for b in bars] == [0, WIDTH / 4, WIDTH / 2]
    assert [b.lasts for b in bars] == [False, False, True]


def test_a_short_phase_is_seen_beside_days_of_work_and_nothing_overflows() -> None:
    bars = timeline(a_machine((Phase.REQUESTED, 500), (Phase.LOADING, 499.999), (Phase.PROVING, 499.9)), BEGAN)

    assert min(b.width for b in bars) == LEAST
    assert sum(b.width for b in bars) == pytest.approx(WIDTH, abs=0.5)


def test_a_machine_that_is_gone_costs_no_more_time() -> None:
    bars = timeline(a_machine((Phase.REQUESTED, 9), (Phase.LOADING, 8), (Phase.FAILED, 7), ended_h=7), BEGAN)

    assert [(b.phase, b.seconds, b.lasts) for b in bars] == [("requested", 3600, False), ("loading", 3600, False)]


def test_a_machine_that_was_just_asked_for_has_a_bar() -> None:
    (bar,) = timeline(a_machine((Phase.REQUESTED, 0)), BEGAN)

    assert (bar.width, bar.seconds, bar.lasts) == (WIDTH, 0, True)


@pytest.mark.parametrize(("phase", "drawn"), [(Phase.LOADING, ["loading"]), (Phase.GONE, [])])
def test_a_machine_whose_way_is_not_known_has_its_phase_alone(phase: Phase, drawn: list[str]) -> None:
    machine = a_machine((phase, 1)).model_copy(update={"timeline": ()})

    assert [b.phase for b in timeline(machine, BEGAN)] == drawn


def a_day(ago: int, usd: str) -> SpendView:
    day = date(2026, 12, 1) - timedelta(days=ago)
    return SpendView(day=day, fleet_usd=Decimal(usd), model_usd=Decimal(0), model_tokens=0)


def test_a_plot_has_each_day_and_the_budget_within_it() -> None:
    days = every_day([a_day(0, "30"), a_day(2, "120")], date(2026, 12, 1), 4)
    drawn = plot([(d.day, d.fleet_usd) for d in days], Decimal(60))

    assert [(str(c.day), c.height, c.over) for c in drawn.columns] == [
        ("2026-11-28", 0, False),
        ("2026-11-29", HEIGHT, True),
        ("2026-11-30", 0, False),
        ("2026-12-01", HEIGHT / 4, False),
    ]
    assert drawn.line == HEIGHT / 2


def test_a_plot_of_nothing_is_flat() -> None:
    drawn = plot([(date(2026, 12, 1), Decimal(0))], None)

    assert (drawn.line, drawn.columns[0].height, drawn.columns[0].y) == (None, 0, HEIGHT)


def a_message(seq: int, kind: str, *calls: str, answers: str | None = None, run_id: int = 1) -> MessageView:
    return MessageView(
        seq=seq,
        session_id=1,
        run_id=run_id,
        at=BEGAN,
        kind=kind,
        role="tool" if kind == "tool_result" else "assistant",
        content=f"message {seq}",
        tool_calls=tuple({"id": c, "name": "get_fleet", "arguments": "{}"} for c in calls),
        tool_call_id=answers,
        estimated_tokens=1,
    )


def test_each_call_has_its_answer_beside_it_even_where_ids_repeat() -> None:
    said = steps(
        [
            a_message(6, "tool_result", answers="b"),
            a_message(1, "reply", "a", "b"),
            a_message(2, "tool_result", answers="b"),
            a_message(3, "tool_result", answers="a"),
            a_message(4, "reply", "b"),
            a_message(5, "tool_result", answers="elsewhere"),
        ]
    )

    assert [(s.message.seq, [c.result.seq if c.result else None for c in s.calls]) for s in said] == [
        (1, [3, 2]),
        (4, [6]),
        (5, []),
    ]


def test_a_call_without_an_answer_says_so() -> None:
    (step,) = steps([a_message(1, "reply", "a")])

    assert step.calls[0].result is None
