"""Which offers a model is shown."""

from types import SimpleNamespace
from typing import Any

from fleetagent.agent.planning import offers_for
from fleetagent.domain.fleet import Offer, Phase
from support.fleets import NOW, a_fleet, an_instance, an_offer, unknown_fleet
from support.manifests import a_parsed_spec


class OpenMarket:
    """Offers whatever it was made with."""

    def __init__(self, *offers: Offer) -> None:
        self._offers = offers

    async def offers(self, *_: Any) -> tuple[Offer, ...]:
        return self._offers


def a_desk(*offers: Offer, fleet: Any = None, **pulse: Any) -> Any:
    """As much of a run as choosing offers needs."""
    known = {"hosts_excluded": {}, "offers_denied": frozenset(), "host_rates": {}, "kind_rates": {}, **pulse}
    return SimpleNamespace(
        market=OpenMarket(*offers),
        subject=SimpleNamespace(spec=a_parsed_spec()),
        seen=SimpleNamespace(fleet=fleet if fleet is not None else a_fleet()),
        pulse=SimpleNamespace(**known),
    )


async def shown(desk: Any) -> list[str]:
    return [o.offer_id for o in await offers_for(desk)]


async def test_an_offer_that_was_gone_lately_is_not_shown_again() -> None:
    desk = a_desk(an_offer("1"), an_offer("2"), offers_denied=frozenset({"1"}))

    assert await shown(desk) == ["2"]


async def test_a_host_that_failed_is_left_out_whatever_its_offer_is_called() -> None:
    desk = a_desk(an_offer("1", machine_id="bad"), an_offer("2"), hosts_excluded={"bad": NOW})

    assert await shown(desk) == ["2"]


async def test_a_host_where_a_machine_of_ours_is_starting_is_left_out_until_it_proves() -> None:
    starting, proving = an_instance("1", Phase.LOADING), an_instance("2", Phase.PROVING)
    desk = a_desk(an_offer("1", machine_id="m1"), an_offer("2", machine_id="m2"), fleet=a_fleet(starting, proving))

    assert await shown(desk) == ["2"]


async def test_without_a_market_or_a_known_fleet_nothing_breaks() -> None:
    desk = a_desk(an_offer("1"), fleet=unknown_fleet())
    assert await shown(desk) == ["1"]

    desk.market = None
    assert await shown(desk) == []
