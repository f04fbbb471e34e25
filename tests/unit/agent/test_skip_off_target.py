"""Off the target the world is looked at more often, and the offers belong to what it looks like."""

from datetime import timedelta

import pytest

from fleetagent.domain.demand import Demand
from fleetagent.domain.fleet import Offer
from support.fleets import NOW, an_instance, an_observation, an_offer
from support.quiet import Offers, a_quiet_run, off_target


@pytest.mark.parametrize(("minutes", "skipped"), [(14, True), (15, False)])
async def test_above_target_at_most_fifteen_minutes_pass(minutes: int, skipped: bool) -> None:  # noqa: FBT001
    on, model = await a_quiet_run(seen=an_observation(an_instance(), demand=Demand(active=False)))
    on.now = NOW + timedelta(minutes=minutes)

    await on.run()

    assert (model.requests == []) is skipped


class TestOffTarget:
    """There the offers belong to what the world looks like, and a quarter of an hour is the most."""

    @pytest.mark.parametrize(("minutes", "skipped"), [(14, True), (15, False)])
    async def test_at_most_fifteen_minutes_pass(self, minutes: int, skipped: bool) -> None:  # noqa: FBT001
        on, model = await a_quiet_run(seen=off_target())
        on.now = NOW + timedelta(minutes=minutes)

        await on.run()

        assert (model.requests == []) is skipped

    @pytest.mark.parametrize(
        "offers",
        [[], [an_offer(), an_offer("7002", usd_per_hour="0.40")], [an_offer(usd_per_hour="0.45")]],
        ids=["gone", "a better one", "cheaper"],
    )
    async def test_other_offers_are_news(self, offers: list[Offer]) -> None:
        on, model = await a_quiet_run(seen=off_target())
        on.market.now = offers

        await on.run()

        assert len(model.requests) > 0

    async def test_offers_that_cannot_be_read_are_not_the_same_offers(self) -> None:
        on, model = await a_quiet_run(seen=off_target(), market=Offers(fails=True))
        assert on.memory.quiet is None

        await on.run()

        assert len(model.requests) > 0
