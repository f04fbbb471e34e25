"""What people see of an agent: the status's own figures, what waits, and what is wrong."""

from datetime import UTC, datetime
from typing import Any

from fleetagent.plugin.glance import status_picture
from fleetagent.plugin.pictures import agents_picture
from fleetagent.plugin.terminal import drawn
from support.manifests import a_manifest, merged

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
STATUS = {
    "lastRunID": 412,
    "session": {
        "id": 4,
        "startedAt": "2026-11-30T11:00:00Z",
        "messages": 31,
        "compactions": 1,
        "contextTokens": 8123,
        "estimatedTokens": 8150,
        "nextPromptTokens": 8300,
    },
    "lastRun": {
        "id": 412,
        "triggers": ["Schedule"],
        "startedAt": "2026-11-30T11:59:30Z",
        "finishedAt": "2026-11-30T11:59:40Z",
        "outcome": "Acted",
        "summary": "launched 1x RTX 5090",
    },
    "nextRunAt": "2026-11-30T12:04:30Z",
    "pendingWakes": [{"id": 88, "at": "2026-11-30T12:10:00Z", "reason": "check 33014980", "askedByRun": 411}],
    "waitingActions": [
        {
            "id": "action-42",
            "kind": "launch",
            "what": "1x RTX\x1b[31m 5090",
            "usdPerHour": "0.55",
            "reason": "because",
            "expiresAt": "2026-11-30T12:09:00Z",
        }
    ],
    "fleet": {
        "instances": 3,
        "proving": 2,
        "onTheWay": 1,
        "proofsPerHour": 410.25,
        "projectedProofsPerHour": 485,
        "usdPerHour": "3.4217",
        "observedAt": "2026-11-30T11:59:57Z",
    },
    "spend": {"fleetUsdToday": "51.20", "modelTokensToday": 120345},
    "openAlerts": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "FleetUnknown",
            "message": "the list failed",
            "lastTransitionTime": "2026-11-30T11:50:00Z",
        }
    ],
}


def an_agent(**changes: Any) -> dict[str, Any]:
    stored: dict[str, Any] = {
        "metadata": {"creationTimestamp": "2026-11-28T12:00:00Z"},
        "spec": {"mode": "Act"},
        "status": STATUS,
    }
    return merged(merged(a_manifest(), stored), changes)


def shown(agent: dict[str, Any]) -> str:
    return drawn(status_picture(agent, NOW, wide=False))


def test_the_status_shows_the_figures_of_the_status_and_rounds_none() -> None:
    said = shown(an_agent(spec={"budget": {"fleetUsdPerDay": "96.00"}}))

    for each in (
        "proofs/h   410.25 measured, 485 projected, target 500",
        "machines   3: 2 proving, 1 on the way; seen 3s ago",
        "USD        3.4217 of 4.00 per hour, 51.20 of 96.00 today",
        "8,123 in the last prompt by the backend's count (estimated 8,150, the next one 8,300), 120,345 today",
        "session    4, since 60m: 31 messages in the prompt, 1 compaction",
        "last run   412 (Schedule), 30s ago: Acted: launched 1x RTX 5090",
        "next run   in 4m30s",
        "wake       88 in 10m: check 33014980 (run 411)",
        "alerts     1 open",
        "action-42   launch   1x RTX[31m 5090    0.55   9m    because",
        "Ready       False    FleetUnknown   10m   the list failed",
    ):
        assert each in said


def test_an_agent_that_nobody_looks_after_is_told_from_one_that_rests() -> None:
    said = shown(an_agent(status={"nextRunAt": "2026-11-30T11:50:00Z", "conditions": []}))

    assert "due for 10m: does the operator run?" in said
    assert "no conditions yet: does the operator run, and watch this namespace?" in said


def test_a_new_agent_without_a_status_can_be_looked_at() -> None:
    agent = an_agent()
    del agent["status"]

    assert "last run   none yet" in shown(agent)
    assert "porep" in drawn(agents_picture([agent], NOW, wide=True, everywhere=True))


def test_a_pause_is_shown_while_it_holds() -> None:
    pause = {"until": "2026-11-30T14:00:00Z", "reason": "too dear", "directions": ["Up"]}

    assert "paused     Up for 2h: too dear" in shown(an_agent(spec={"pause": pause}))
    assert "paused" not in shown(an_agent(spec={"pause": {**pause, "until": "2026-11-30T11:00:00Z"}}))


def test_what_was_said_and_not_confirmed_is_named() -> None:
    annotations = {"fleetagent.dev/requested-at": "2", "fleetagent.dev/approve": "action-1"}
    agent = an_agent(metadata={"annotations": annotations}, status={"lastHandledApprove": "action-1"})

    assert "not served   request: said, and not confirmed by the operator yet" in shown(agent)


def test_the_list_has_a_row_for_each_with_the_statuss_figures() -> None:
    assert drawn(agents_picture([an_agent()], NOW, wide=False, everywhere=False)) == (
        "NAME    MODE   TARGET   PROJECTED   MACHINES    USD/H   TOKENS   LAST RUN   NEXT RUN   READY   AGE\n"
        "porep   Act       500         485          3   3.4217     8123        412   in 4m30s   False   2d\n"
    )


def test_no_agents_is_said_with_where_to_look() -> None:
    assert drawn(agents_picture([], NOW, wide=False, everywhere=False)) == (
        "no FleetAgents here; -A looks in all namespaces\n"
    )
