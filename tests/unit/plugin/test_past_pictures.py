"""What people see of the past: figures whole, strangers' words harmless."""

from datetime import UTC, datetime
from typing import Any

from fleetagent.plugin.past_pictures import alerts_picture, fleet_picture, run_picture, runs_picture, spend_picture
from fleetagent.plugin.terminal import drawn
from fleetagent.plugin.transcript import transcript_picture

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
AGENT = {
    "spec": {"target": {"proofsPerHour": 500}, "budget": {"fleetUsdPerHour": "4.00", "fleetUsdPerDay": "96.00"}},
    "status": {
        "fleet": {"proofsPerHour": 410.25, "projectedProofsPerHour": 485, "usdPerHour": "3.4217"},
        "spend": {"fleetUsdToday": "51.20", "modelTokensToday": 120345},
    },
}


def a_run(**changes: Any) -> dict[str, Any]:
    usual = {
        "runID": 7,
        "sessionID": 1,
        "state": "finished",
        "triggers": ["Request", "Event"],
        "startedAt": "2026-11-30T11:59:00Z",
        "finishedAt": "2026-11-30T11:59:04Z",
        "outcome": "Acted",
        "summary": "launched\nm1",
        "quiet": False,
        "modelCalls": 3,
        "tokensIn": 6727,
        "tokensOut": 235,
        "tokensCached": 4560,
        "tokensEstimated": True,
        "usd": "0.0021",
        "actions": 1,
        "refusals": 2,
    }
    return {**usual, **changes}


def a_message(seq: int, role: str, content: str, **more: Any) -> dict[str, Any]:
    usual = {"seq": seq, "runID": 7, "at": "2026-11-30T11:59:01Z", "kind": "reply", "role": role, "content": content}
    return {**usual, **more}


def test_runs_are_rows_with_whole_figures() -> None:
    shown = drawn(runs_picture([a_run(), a_run(runID=6, state="running", outcome=None)], NOW, wide=False)).splitlines()

    assert shown[1].split()[:2] == ["7", "60s"]
    assert "Request, Event   Acted         3        6727   0.0021         1         2   launched m1" in shown[1]
    assert "running" in shown[2]


def test_wide_runs_say_how_long_they_took() -> None:
    assert "4s" in drawn(runs_picture([a_run()], NOW, wide=True)).splitlines()[1].split()


def test_a_run_shows_what_was_refused_and_what_was_said() -> None:
    action = {"id": 3, "kind": "launch", "by": "model", "state": "refused", "refusalCode": "OverHourlyBudget"}
    cut = {"runID": 7, "method": "Summary", "tokensBefore": 29000, "tokensAfter": 9000, "runsLeft": [1, 2]}
    found = {
        "run": a_run(),
        "verdict": {"action": True, "state_changed": False},
        "actions": [{**action, "refusal": "4.10 USD/h would pass the budget", "usdPerHour": "0.55", "args": {}}],
        "compactions": [cut],
        "messages": [
            a_message(2, "tool", "\x1b[31mred"),
            a_message(1, "assistant", "", toolCalls=[{"name": "f", "arguments": "{}"}]),
        ],
    }

    shown = drawn(run_picture(found, NOW))

    assert "6,727 in (4,560 cached), 235 out, some of it estimated, 0.0021 USD" in shown
    assert "by the ledger action: true, state_changed: false; the model said nothing" in shown
    assert "OverHourlyBudget" in shown
    assert "4.10 USD/h would pass the budget" in shown
    assert "29000" in shown
    assert shown.index("f({})") < shown.index("[31mred")
    assert "\x1b" not in shown


def test_a_call_reads_as_one_and_what_left_the_prompt_says_why() -> None:
    messages = [
        a_message(1, "assistant", "", toolCalls=[{"name": "stop", "arguments": '{"id": 1}'}]),
        a_message(3, "tool", "all of it", historyContent="a part", kind="tool_result"),
        a_message(4, "user", "old", leftPromptBecause="compacted"),
    ]

    shown = drawn(transcript_picture(messages))

    assert 'stop({"id": 1})' in shown
    assert "later runs see: a part" in shown
    assert "left the prompt: compacted" in shown


def test_machines_stand_below_the_statuss_own_sums() -> None:
    machine = {
        "number": 2,
        "phase": "loading",
        "phaseSince": "2026-11-30T11:58:00Z",
        "timeline": [{"phase": "requested", "at": "2026-11-30T11:57:00Z"}],
        "hostID": "21364",
        "gpuName": "RTX\x1b[2J 5090",
        "numGpus": 2,
        "usdPerHour": "0.752169",
        "expectedRate": 96.5,
    }

    shown = drawn(fleet_picture([machine], AGENT, NOW, wide=True))

    assert shown.startswith("410.25 proofs/h measured, 485 projected, target 500; 3.4217 of 4.00 USD/h\n")
    assert "m2        -           2x RTX[2J 5090   loading    2m      ~96.5   0.752169   21364" in shown
    assert "requested@11-30T11:57:00" in shown


def test_spend_is_added_up_exactly() -> None:
    days = [
        {"day": "2026-11-30", "fleetUsd": "0.1", "modelUsd": "0.00", "modelTokens": 20420},
        {"day": "2026-11-29", "fleetUsd": "0.2", "modelUsd": "0.03", "modelTokens": 1},
    ]

    shown = drawn(spend_picture(days, AGENT))

    assert shown.startswith("today: 51.20 of 96.00 USD for machines, 120,345 model tokens\n")
    assert shown.splitlines()[-1].split() == ["together", "0.3", "0.03", "20,421"]


def test_what_an_agent_whose_resource_is_gone_had_and_cost_is_shown_all_the_same() -> None:
    day = {"day": "2026-11-30", "fleetUsd": "0.1", "modelUsd": "0.00", "modelTokens": 20420}

    assert drawn(fleet_picture([], {"name": "porep"}, NOW, wide=False)).startswith("the resource is gone")
    spent = drawn(spend_picture([day], {"name": "porep"})).splitlines()
    assert spent[0].startswith("the resource is gone")
    assert spent[-1].split() == ["together", "0.1", "0.00", "20,420"]


def test_alerts_show_their_state_and_comment() -> None:
    alert = {"id": 4, "severity": "warning", "code": "Model", "state": "acknowledged", "createdAt": None, "runID": 7}

    shown = drawn(alerts_picture([{**alert, "message": "look", "comment": "known"}], NOW))

    assert "alert-4   warning    Model   acknowledged" in shown
    assert "look (known)" in shown


def test_what_should_be_a_number_cannot_command_the_terminal_either() -> None:
    run = a_run(runID="7\x1b]52;c;eA==\x07", tokensIn="\x9b31m")

    shown = drawn(run_picture({"run": run, "actions": [], "messages": [], "compactions": []}, NOW))

    assert "\x1b" not in shown
    assert "\x9b" not in shown
