"""The main job: from an empty conversation and an empty fleet to the target, and hold."""

from decimal import Decimal
from pathlib import Path

from fleetagent.dev.controlplane import ControlPlane
from support.stage import NAME, Stage, a_stage


def test_the_fleet_goes_from_nothing_to_its_target_and_then_holds(stage: Stage) -> None:
    stage.start_operator()
    stage.apply()

    stage.wait_for_target()
    stage.wait_for(lambda: stage.status()["fleet"]["onTheWay"] == 0, "all machines prove")
    stage.wait_for_runs(3)

    fleet = stage.status()["fleet"]
    assert fleet["projectedProofsPerHour"] >= 200 * 0.97
    assert Decimal(fleet["usdPerHour"]) <= Decimal("4.00")
    runs = stage.runs()
    assert [r["run_id"] for r in runs] == list(range(1, len(runs) + 1))
    assert runs[0]["outcome"] == "Acted"
    assert "Acted" not in {r["outcome"] for r in runs[2:]}
    stage.check_books()


def test_on_a_market_whose_offers_change_and_go_it_comes_to_its_target_all_the_same(
    control_plane: ControlPlane, namespace: str, database_url: str, tmp_path: Path
) -> None:
    with a_stage(control_plane, namespace, database_url, tmp_path, moving=True) as stage:
        stage.start_operator()
        stage.apply()

        stage.wait_for_target()
        stage.wait_for_books()


def test_no_machine_is_launched_while_those_on_their_way_suffice(stage: Stage) -> None:
    stage.start_operator()
    stage.apply(spec={"schedule": {"interval": "10s", "skipUnchanged": False}})
    stage.wait_for_target()

    stage.annotate(requested_at="again")
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "again", "the request is served")

    launches = stage.rows("SELECT * FROM actions WHERE kind = 'launch' AND state = 'done'")
    assert {r["run_id"] for r in launches} == {1}
    stage.check_books()


def test_status_shows_the_backends_own_count_of_the_last_request(stage: Stage) -> None:
    stage.start_operator()
    stage.apply()
    stage.wait_for_target()

    stage.wait_for(
        lambda: stage.status()["session"]["contextTokens"] == stage.model.requests()[-1]["prompt_tokens"],
        "status shows the server's prompt_tokens",
    )
    shown = f'fleetagent_context_tokens{{name="{NAME}",namespace="{stage.namespace}"}}'
    stage.wait_for(
        lambda: f"{shown} {float(stage.model.requests()[-1]['prompt_tokens'])}" in stage.metrics(),
        "the metric shows it, too",
    )
