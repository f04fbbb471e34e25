"""What people see of the demo."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleetagent.dev.facts import Facts, OpenAlert
from fleetagent.dev.lines import changes
from fleetagent.dev.view import Shown, to_try, view
from support.demo_facts import a_condition, a_ledger, a_machine, a_run, an_agent, facts

SHOWN = Shown("porep", Path("/tmp/fleetagent-controlplane-abcdefgh/admin.kubeconfig"))  # noqa: S108


def drawn(look: Facts, shown: Shown = SHOWN, *, width: int = 100, height: int = 50) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height)
    with console.capture() as captured:
        console.print(view(look, shown, height=height))
    return captured.get().splitlines()


def a_full_look() -> Facts:
    wake = {"id": 88, "at": "2026-11-30T12:01:00Z", "reason": "check 50300001", "askedByRun": 2}
    status = {
        "nextRunAt": "2026-11-30T12:00:04Z",
        "pendingWakes": [wake],
        "openAlerts": 1,
        "session": {"id": 1, "contextTokens": 4111},
        "spend": {"fleetUsdToday": "0.02", "modelTokensToday": 41983},
        "conditions": [
            a_condition("Ready", "False", message="FleetKnown: the list is partial"),
            a_condition("OnTarget"),
        ],
    }
    machines = tuple(a_machine(number) for number in range(1, 11))
    runs = tuple(a_run(number, triggers=["Schedule", "Event"], summary="launch " * 40) for number in range(8, 0, -1))
    alerts = (OpenAlert(id=3, severity="warning", message="the market is dear " * 20),)
    return facts(agent=an_agent(status=status), ledger=a_ledger(machines=machines, runs=runs, alerts=alerts))


def test_the_view_says_what_is_wanted_what_is_there_and_what_comes() -> None:
    text = "\n".join(drawn(a_full_look(), Shown("porep", SHOWN.kubeconfig, left=timedelta(seconds=42))))

    for said in (
        "OnTarget: True",
        "ends in 42 s",
        "300 measured, 300 projected, target 300",
        "1.50 of 4.00, 0.02 USD today",
        "4,111 of 30,000 by the backend's count; 41,983 used today",
        "10 proving",
        "in 4 s",
        "wake 88 in 60 s: check 50300001",
        "alert-3 (warning): the market is dear",
        "Schedule, Event",
        "Ready: FleetKnown: the list is partial",
        "export KUBECONFIG=/tmp/fleetagent-controlplane-abcdefgh/admin.kubeconfig",
    ):
        assert said in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (100, 40), (120, 50)])
def test_the_view_fits_the_terminal(width: int, height: int) -> None:
    lines = drawn(a_full_look(), width=width, height=height)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [80, 100])
def test_every_command_can_be_copied_whole(width: int) -> None:
    lines = [line.partition("  # ")[0].rstrip() for line in drawn(a_full_look(), width=width)]

    for command, _ in to_try(SHOWN.name, SHOWN.kubeconfig, None):
        assert command in lines


def test_a_kubectl_that_is_not_on_path_gets_a_name() -> None:
    first, _ = next(to_try("porep", SHOWN.kubeconfig, Path("/cache/kubectl")))

    assert first == "alias kubectl=/cache/kubectl"


def test_a_view_of_nothing_says_what_cannot_be_read() -> None:
    look = facts(agent=None, ledger=None, market=None, model=None, unreadable=("the database cannot be read: gone",))

    assert "the database cannot be read: gone" in "\n".join(drawn(look))


def test_nothing_is_printed_when_nothing_changed() -> None:
    assert list(changes(a_full_look(), a_full_look())) == []


def test_a_run_is_told_once_when_it_has_ended() -> None:
    going, over = a_run(2, state="running", outcome=None, summary=None), a_run(2, outcome="Held", summary="enough")
    before, after = facts(ledger=a_ledger(runs=(going,))), facts(ledger=a_ledger(runs=(over,)))

    assert list(changes(facts(ledger=a_ledger()), before)) == []
    assert list(changes(before, after)) == ["run 2 (Schedule): Held: enough"]


def test_each_step_of_a_machine_is_told() -> None:
    on_its_way = a_machine(1, phase="benchmarking", measured_rate=None)
    before, after = facts(ledger=a_ledger(machines=(on_its_way,))), facts(ledger=a_ledger(machines=(a_machine(1),)))

    assert list(changes(before, after)) == ["machine 50300001 (1x RTX 5090) is proving, 100 proofs/h"]
    assert list(changes(after, facts(ledger=a_ledger()))) == ["machine 50300001 is no more"]


def test_a_database_that_is_away_for_a_moment_ends_no_machine() -> None:
    away = facts(ledger=None, unreadable=("the database cannot be read: gone",))

    assert list(changes(facts(), away)) == ["the database cannot be read: gone"]


def test_a_new_session_is_told() -> None:
    before, after = (facts(agent=an_agent(status={"session": {"id": number}})) for number in (4, 5))

    assert list(changes(before, after)) == ["session 5 has begun"]


def test_figures_and_conditions_are_told_when_they_change() -> None:
    status = {
        "fleet": {"proving": 2, "onTheWay": 1, "proofsPerHour": 200},
        "conditions": [a_condition("OnTarget", "False", reason="BelowTarget", message="projected 280")],
    }

    assert list(changes(facts(), facts(agent=an_agent(status=status)))) == [
        "2 proving, 1 on the way: 200 measured and 300 projected of 300 proofs/h, 1.50 of 4.00 USD/h",
        "OnTarget is False (BelowTarget): projected 280",
    ]
