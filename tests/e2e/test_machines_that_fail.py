"""What happens to machines outside our hands: lost, stopped, stuck or too slow. By code, whatever the model thinks."""

import pytest

from fleetagent.agent.subject import label_prefix
from fleetagent.domain.records import AgentKey
from support.asking import LOOK, ask, codes, launch, offers, stop
from support.stage import NAME, Stage

BUSY = {"proofsPerHour": 5000}
OFTEN = {"interval": "10s", "skipUnchanged": False, "debounce": {"idle": "1s", "max": "5s"}}


def test_a_machine_destroyed_elsewhere_is_unknown_first_then_lost_then_replaced(stage: Stage) -> None:
    stage.start_operator(confirm_gone_seconds="12")
    stage.apply(spec={"schedule": OFTEN})
    stage.wait_for_target()
    stage.wait_for(lambda: stage.status()["fleet"]["onTheWay"] == 0, "all machines prove")
    lost = stage.market.live()[0]
    created = stage.market.get("state")["created"]

    stage.market.post(f"machines/{lost['id']}/destroy")
    stage.wait_for(lambda: stage.condition("FleetKnown")["status"] == "False", "unknown first")
    assert str(lost["id"]) in stage.condition("FleetKnown")["message"]  # for 12 s
    assert stage.market.get("state")["created"] == created
    stage.wait_for(lambda: _phase(stage, lost["label"]) == "failed", "lost after two confirmations")
    row = stage.rows("SELECT * FROM instances WHERE label = %s", lost["label"])[0]
    assert (row["gone_at"] - row["confirmed_gone_at"]).total_seconds() >= 12

    stage.wait_for(lambda: stage.market.get("state")["created"] > created, "a replacement")
    stage.wait_for_target()
    assert [t for r in stage.runs() for t in r["triggers"] if t == "Event"]
    stage.wait_for_books()


def _phase(stage: Stage, label: str) -> str:
    phase: str = stage.rows("SELECT phase FROM instances WHERE label = %s", label)[0]["phase"]
    return phase


def test_a_machine_that_exits_or_never_starts_is_destroyed_and_its_host_left_out(stage: Stage) -> None:
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY)
    shown = offers(stage)
    stage.market.put("faults", {"worker": {"kind": "silent"}})
    assert codes(ask(stage, [LOOK], [launch(shown[0]), launch(shown[1])])) == ["done", "done"]
    exits, silent = stage.market.live()

    stage.market.post(f"machines/{exits['id']}/fail", {"status": "exited", "status_msg": "out of disk"})
    stage.wait_for(lambda: _phase(stage, exits["label"]) == "gone", "the exited machine is gone")
    assert [m["id"] for m in stage.market.live()] == [silent["id"]], "the other one has time"
    ask(stage, [LOOK], fleet={"vast": _vast(stage), "timeouts": {"loading": "1s"}}, target=BUSY)
    stage.wait_for(lambda: _phase(stage, silent["label"]) == "gone", "the silent machine is gone")

    hosts = {h["machine_id"]: h for h in stage.rows("SELECT * FROM hosts")}
    assert set(hosts) == {str(exits["machine_id"]), str(silent["machine_id"])}
    assert "out of disk" in hosts[str(exits["machine_id"])]["last_failure"]
    assert "in phase loading" in hosts[str(silent["machine_id"])]["last_failure"]
    stops = stage.rows("SELECT * FROM actions WHERE kind = 'stop' ORDER BY id")
    assert [(a["by"], a["run_id"], a["state"]) for a in stops] == [("lifecycle", 0, "done")] * 2
    refused = ask(stage, [LOOK], [launch(shown[0]), launch(shown[1])])
    assert codes(refused) == ["OfferNotSeen"] * 2
    stage.wait_for_books()


def _vast(stage: Stage) -> dict[str, object]:
    found: dict[str, object] = stage.manifest()["spec"]["fleet"]["vast"]
    return found


def test_a_benchmark_below_the_minimum_ends_the_machine_at_once(stage: Stage) -> None:
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY)
    instance = {"image": "example/curio-prover:latest", "minProofsPerHour": 300}
    vast = {**_vast(stage), "instance": instance}
    assert codes(ask(stage, [LOOK], [launch(offers(stage)[0])], fleet={"vast": vast}, target=BUSY)) == ["done"]
    weak = stage.rows("SELECT label FROM instances")[0]

    stage.wait_for(lambda: _phase(stage, weak["label"]) == "gone", "the weak machine is gone")

    row = stage.rows("SELECT * FROM instances")[0]
    assert "below the minimum of 300" in row["failure"]
    assert "proving" not in [phase for phase, _ in row["timeline"]]
    assert stage.rows("SELECT * FROM hosts")[0]["excluded_until"] is not None
    stage.wait_for_books()


def test_machines_of_others_on_the_same_account_are_never_touched(stage: Stage) -> None:
    prefix = label_prefix("default", AgentKey(stage.namespace, NAME))
    other = label_prefix("default", AgentKey(stage.namespace, "another"))
    labels = [
        None,
        "",
        "fa/",
        f"{other}abcdefghijkl",
        prefix.rstrip("/"),
        prefix.upper(),
        f"x{prefix}y",
        f"{prefix[:-1]}x/1",
    ]
    foreign = [stage.market.post("machines", {"label": label}) for label in labels]
    foreign.append(stage.market.post("machines", {"label": None, "status": "exited"}))
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY)

    wished = ask(stage, [stop(str(m["id"])) for m in foreign[:5]], [stop(label) for label in labels if label])
    assert codes(ask(stage, [LOOK], [launch(offers(stage)[0])])) == ["done"]
    stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME, "--timeout=60s")

    assert set(codes(wished)) == {"UnknownInstance"}
    state = stage.market.get("state")
    assert {m["id"] for m in state["machines"] if m["live"]} == {m["id"] for m in foreign}
    assert state["calls"]["update"] == 0
    assert {r["label"] for r in stage.rows("SELECT label FROM instances")} == {
        m["label"] for m in state["machines"] if not m["live"]
    }


@pytest.mark.parametrize(("most", "phase"), [(2, "loading"), (1, "gone")], ids=["there is room", "the fleet is full"])
def test_a_machine_with_our_label_that_the_ledger_lacks_is_adopted_if_there_is_room(
    stage: Stage, most: int, phase: str
) -> None:
    stray = f"{label_prefix('default', AgentKey(stage.namespace, NAME))}strayedagain"
    stage.start_operator()
    ask(stage, [LOOK], target=BUSY, limits={"maxInstances": most, "launchesPerRun": 4})
    assert codes(ask(stage, [LOOK], [launch(offers(stage)[0])])) == ["done"]

    stage.market.post("machines", {"label": stray, "gpu_name": "RTX 4090"})
    stage.wait_for(lambda: stage.rows("SELECT * FROM instances WHERE label = %s", stray), "it is known")
    stage.wait_for(lambda: _phase(stage, stray) == phase, "adopted or destroyed")
    assert len(stage.market.live()) == most
    stage.wait_for_books()
