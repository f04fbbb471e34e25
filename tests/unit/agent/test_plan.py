"""What plan_capacity proposes: the arithmetic is done by code, in every mode alike."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from fleetagent.domain.fleet import Instance, Offer, Phase
from support.fakes import StrictModel, calls, says
from support.fleets import an_instance, an_observation, an_offer
from support.memory import Memory
from support.rehearsal import Rehearsal

SPARE: tuple[Instance, ...] = tuple(an_instance(name) for name in ("1", "2", "3"))


@dataclass
class Offers:
    """A market of which only the offers are asked; usually there are none."""

    there: tuple[Offer, ...] = ()

    async def offers(self, *_: Any) -> tuple[Offer, ...]:
        return self.there


async def planned(mode: str, **changes: Any) -> dict[str, Any]:
    """The plan for three machines where two reach the target."""
    model = StrictModel(calls("plan_capacity"), says())
    usual = {
        "market": Offers(),
        "seen": an_observation(*SPARE, wanted=200),
        "worker_url": "http://workers.test",
    }
    await Rehearsal(model, spec={"mode": mode, "target": {"proofsPerHour": 200}}, **{**usual, **changes}).run()
    plan: dict[str, Any] = json.loads(model.texts()[-1])
    return plan


@pytest.mark.parametrize("mode", ["Act", "DryRun", "Approve"])
async def test_a_mode_that_holds_back_plans_the_stops_that_act_would_make(mode: str) -> None:
    assert [s["instance_id"] for s in (await planned(mode))["stop"]] == ["1"]


async def test_a_machine_that_is_too_young_is_not_planned_away() -> None:
    young = [an_instance(i.label, requested_at=an_observation().at) for i in SPARE]

    assert (await planned("Act", seen=an_observation(*young, wanted=200)))["stop"] == []


async def test_what_a_host_was_measured_at_counts_for_more_than_what_such_machines_make() -> None:
    slow, good = an_offer("7001", usd_per_hour="0.40"), an_offer("7002", usd_per_hour="0.50")
    lacking = {"market": Offers((slow, good)), "seen": an_observation(wanted=100)}
    guessed = await planned("Act", **lacking)
    memory = Memory(host_rates={(slow.machine_id, slow.gpu_name, slow.num_gpus): 20.0})

    known = await planned("Act", **lacking, memory=memory)

    assert [(s["offer_id"], s["expected_proofs_per_hour"]) for s in guessed["launch"]] == [("7001", 120)]
    assert [(s["offer_id"], s["expected_proofs_per_hour"]) for s in known["launch"]] == [("7002", 120)]


async def test_a_plan_says_what_it_costs_and_when_all_of_it_proves() -> None:
    one = an_instance("1", Phase.LOADING, phase_since=an_observation().at)

    plan = await planned("Act", market=Offers((an_offer("7001"),)), seen=an_observation(one, wanted=200))

    (step,) = plan["launch"]
    assert (step["usd_per_hour"], step["usd_per_proof"], step["proves_in_minutes"]) == ("0.500", "0.0042", 50)
    assert {name: value for name, value in plan.items() if name.startswith("then_")} == {
        "then_projected_proofs_per_hour": 201,
        "then_usd_per_hour": "1.00",
        "then_usd_today": "12.00",
        "then_usd_per_proof": "0.0050",
        "then_all_prove_in_minutes": 55,
    }
    assert "bound_by" not in plan


async def test_a_plan_that_cannot_reach_the_target_says_what_binds_it_and_what_is_left() -> None:
    seen = an_observation(an_instance("1", measured_rate=40.0), wanted=200)

    plan = await planned("Act", market=Offers((an_offer("7001", num_gpus=1, cpu_cores=32.0),)), seen=seen)

    assert (len(plan["launch"]), plan["bound_by"]["code"]) == (1, "NoOffer")
    assert plan["left"] == {
        "launches_in_this_run": 1,
        "launches_in_this_hour": 5,
        "instances": 18,
        "usd_per_hour": "3.00",
    }


async def test_a_plan_without_any_step_says_why() -> None:
    plan = await planned("Act", seen=an_observation(wanted=200), worker_url=None)

    assert (plan["hold"], plan["launch"], plan["bound_by"]["code"]) == (True, [], "NoWorkerURL")
    assert plan["because"] == plan["bound_by"]["sentence"]
