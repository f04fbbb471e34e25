"""Short names: an offer's ends with its run, a machine's lasts for ever."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from fleetagent.domain.fleet import Instance
from fleetagent.domain.records import Asked
from support.fakes import StrictModel, calls, says
from support.fleets import a_fleet, an_instance, an_observation, an_offer
from support.memory import Memory
from support.rehearsal import Rehearsal

THIRD = replace(an_instance("33014980"), number=3)


class Offers:
    """A market of which only the offers are asked."""

    def __init__(self, *offers: Any) -> None:
        self._offers = offers

    @asynccontextmanager
    async def buying(self) -> AsyncIterator[None]:
        yield

    async def offers(self, *_: Any) -> tuple[Any, ...]:
        return self._offers

    async def offer(self, offer_id: str, _: int) -> Any:
        return next((o for o in self._offers if o.offer_id == offer_id), None)


async def said(
    *rounds: str | dict[str, Any], seen: tuple[Instance, ...] = (), memory: Memory | None = None
) -> list[dict[str, Any]]:
    """What the tools answer to these calls, one call a round, in a run that lacks 500 proofs/h."""
    asked = [
        r if isinstance(r, str) else ("stop_instance" if "instance_id" in r else "launch_instance", r) for r in rounds
    ]
    model = StrictModel(*map(calls, asked), says())
    market = Offers(an_offer("7001"), an_offer("7002", usd_per_hour="0.60"))
    spec = {"mode": "DryRun", "schedule": {"skipUnchanged": False}}
    known: dict[str, Any] = {"seen": an_observation(*seen), "memory": memory or Memory()}
    on = Rehearsal(model, spec=spec, market=market, worker_url="http://workers.test", **known)
    await on.run()
    return [json.loads(text) for text in model.texts()[-2 * len(rounds) + 1 :: 2]]


async def test_each_offer_shown_has_the_markets_id_and_a_short_name_of_this_run() -> None:
    shown, planned = await said("get_offers", "plan_capacity")

    assert [(o["offer_id"], o["alias"]) for o in shown["offers"]] == [("7001", "o1-1"), ("7002", "o1-2")]
    assert {s["offer_id"]: s["alias"] for s in planned["launch"]} == {"7001": "o1-1", "7002": "o1-2"}


@pytest.mark.parametrize("name", ["7002", " 7002 ", "o1-2", "O1-2", " o1-2\n", 7002])
async def test_an_offer_may_be_named_either_way(name: Any) -> None:
    _, answer = await said("get_offers", {"offer_id": name})

    assert answer["refused"]["code"] == "DryRun"


@pytest.mark.parametrize("name", ["o0-2", "o2-2", "o1-3", "o1", "o1-02", "o1-2 o1-1", "m3", "0x1-2"])
async def test_a_name_of_another_run_or_of_nothing_is_no_offer_that_was_shown(name: str) -> None:
    _, answer = await said("get_offers", {"offer_id": name})

    assert answer["refused"]["code"] == "OfferNotSeen"


async def test_a_name_of_the_last_run_is_refused_even_while_the_same_offer_is_shown_again() -> None:
    memory = Memory()
    await said("get_offers", memory=memory)

    _, stale, fresh = await said("get_offers", *({"offer_id": n} for n in ("o1-1", "o2-1")), memory=memory)

    assert [a["refused"]["code"] for a in (stale, fresh)] == ["OfferNotSeen", "DryRun"]


async def test_a_machine_is_shown_with_the_markets_id_and_its_lasting_name() -> None:
    (fleet,) = await said("get_fleet", seen=(THIRD,))

    assert [(i["instance_id"], i["alias"]) for i in fleet["instances"]] == [("33014980", "m3")]


@pytest.mark.parametrize("name", ["33014980", "m3", "M3", " m3 ", THIRD.label])
def test_a_machine_may_be_named_by_id_alias_or_label(name: str) -> None:
    assert a_fleet(an_instance("9001"), THIRD).named(name) is THIRD


@pytest.mark.parametrize("name", ["m", "m0", "m03", "m1", "3", "m3 m3", "", "mm3"])
def test_what_is_nearly_an_alias_names_nothing(name: str) -> None:
    assert a_fleet(an_instance("9001"), THIRD).named(name) is None


async def test_the_audit_names_the_machine_by_the_markets_id_whatever_the_model_called_it() -> None:
    class Audited(Memory):
        async def refuse(self, run: Any, asked: Asked, refusal: Any, wish: Any = None) -> None:
            await super().refuse(run, asked, refusal, wish)
            refusals.append(asked.args)

    refusals: list[Any] = []

    await said({"instance_id": "M3", "reason": "x"}, seen=(THIRD,), memory=Audited())

    assert refusals == [{"instance_id": "33014980", "reason": "x"}]
