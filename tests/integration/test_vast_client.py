"""Our client against the simulated market, over real sockets: written apart, they must understand each other."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetagent.adapters.vast import NO_LIMITS, Pacer, SearchMemory, VastMarket, VastMarkets
from fleetagent.dev.certificates import write_credentials
from fleetagent.domain.fleet import MarketStatus, Order
from fleetagent.domain.offers import why_not
from fleetagent.domain.resource import OfferFilter
from fleetagent.errors import BadResource, Denied, FleetAgentError, FleetUnreadable, TryLater, Unclear
from fleetagent.sim.marketplace import MarketplaceConfig, RunningMarketplace, running

DISK_GB = 250
EXAMPLE = OfferFilter.read(
    {"gpuNames": ["RTX 5090", "RTX 4090"], "minGpuRamGB": 16, "maxUsdPerHour": "0.90", "minReliability": 0.97}
)
DEADLINE_S = 20.0


class Site:
    """A running market and a client of it."""

    def __init__(self, marketplace: RunningMarketplace, http: httpx.AsyncClient) -> None:
        self.simulated = marketplace.market
        self.url = marketplace.url
        self._http = http
        self.client = self.client_with("sim-key")

    def client_with(self, key: str, *, pacer: Pacer | None = None, timeout_seconds: float = 5.0) -> VastMarket:
        markets = VastMarkets(
            self._http,
            pacer or Pacer(NO_LIMITS),
            SearchMemory(),
            timeout_seconds=timeout_seconds,
            create_timeout_seconds=timeout_seconds,
        )
        return markets.market(api_key=key, base_url=self.url, worker_url_env="FLEETAGENT_URL")

    async def rent(self, label: str) -> str:
        offer = (await self.client.offers(EXAMPLE, DISK_GB))[0]
        return await self.client.launch(order(offer.offer_id, label))

    @contextmanager
    def fault(self, call: str, *kinds: str, times: int | None = None) -> Iterator[None]:
        self.simulated.board.replace({call: [{"kind": kind, "times": times} for kind in kinds]})
        yield
        self.simulated.board.replace({})

    @property
    def live(self) -> int:
        return sum(machine.live for machine in self.simulated.machines.values())


def order(offer_id: str, label: str = "fa/abc/1") -> Order:
    env = {"FLEETAGENT_URL": "http://127.0.0.1:9/workers/t0", "MIN_RATE": "50"}
    return Order(offer_id=offer_id, label=label, image="example/prover", disk_gb=DISK_GB, env=env, onstart="")


@asynccontextmanager
async def a_site(**changes: Any) -> AsyncIterator[Site]:
    plain = MarketplaceConfig(reliable=True, moving=False, worker_url_env="NONE")
    async with running(replace(plain, **changes)) as marketplace, httpx.AsyncClient() as http:
        yield Site(marketplace, http)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with a_site() as each:
        yield each


async def test_offers_are_inside_the_filter_cheapest_first_at_the_all_in_price(site: Site) -> None:
    offers = await site.client.offers(EXAMPLE, DISK_GB)

    assert len(offers) > 30
    assert all(why_not(offer, EXAMPLE, DISK_GB) is None for offer in offers)
    assert [o.usd_per_hour for o in offers] == sorted(o.usd_per_hour for o in offers)
    assert len({offer.offer_id for offer in offers}) == len(offers)
    assert Decimal("0.10") < offers[0].usd_per_hour < Decimal("0.90")


async def test_a_market_of_many_offers_is_read_beyond_its_first_page() -> None:
    async with a_site(offers=200) as site:
        offers = await site.client.offers(EXAMPLE, DISK_GB)

        assert len(offers) > 128
        assert site.simulated.calls["search"] == 4


async def test_a_market_that_forgets_the_filter_shows_us_nothing_outside_it(site: Site) -> None:
    with site.fault("search", "ignores_filter"):
        offers = await site.client.offers(EXAMPLE, DISK_GB)

    assert offers
    assert all(why_not(offer, EXAMPLE, DISK_GB) is None for offer in offers)


async def test_one_offer_is_found_again_at_the_same_price(site: Site) -> None:
    offer = (await site.client.offers(EXAMPLE, DISK_GB))[0]

    assert await site.client.offer(offer.offer_id, DISK_GB) == offer
    assert await site.client.offer("999999999", DISK_GB) is None


async def test_a_machine_is_rented_listed_shown_and_destroyed(site: Site) -> None:
    offer = (await site.client.offers(EXAMPLE, DISK_GB))[0]
    provider_id = await site.client.launch(order(offer.offer_id))

    (machine,) = await site.client.machines()
    assert (machine.provider_id, machine.label, machine.machine_id) == (provider_id, "fa/abc/1", offer.machine_id)
    assert machine.status is MarketStatus.LOADING
    assert machine.worker_url == "http://127.0.0.1:9/workers/t0"
    assert machine.usd_per_hour == offer.usd_per_hour
    assert (machine.cpu_ram_gb, machine.cpu_cores) == (offer.cpu_ram_gb, offer.cpu_cores)
    assert await site.client.machine(provider_id) == machine
    assert await site.client.offer(offer.offer_id, DISK_GB) is None

    await site.client.destroy(provider_id)
    await site.client.destroy(provider_id)

    assert await site.client.machines() == ()
    assert await site.client.machine(provider_id) is None


async def test_more_machines_than_a_page_are_listed_whole(site: Site) -> None:
    rented = {await site.rent(f"fa/abc/{n}") for n in range(30)}

    assert {machine.provider_id for machine in await site.client.machines()} == rented


async def test_a_machine_comes_up(site: Site) -> None:
    provider_id = await site.rent("fa/abc/1")
    async with asyncio.timeout(DEADLINE_S):
        while (machine := await site.client.machine(provider_id)) and machine.status is not MarketStatus.RUNNING:
            site.simulated.clock.advance(60)

    assert machine
    assert machine.status_message.startswith("success, running example/prover")


async def test_an_offer_that_somebody_else_took_is_denied(site: Site) -> None:
    offer = (await site.client.offers(EXAMPLE, DISK_GB))[0]
    await site.client.launch(order(offer.offer_id))

    with pytest.raises(Denied) as caught:
        await site.client.launch(order(offer.offer_id, "fa/abc/2"))

    assert caught.value.code == "OfferGone"
    assert site.live == 1


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("no_such_ask_404", "OfferGone"),
        ("no_such_ask_410", "OfferGone"),
        ("no_such_ask_400", "OfferGone"),
        ("insufficient_credit", "InsufficientCredit"),
    ],
)
async def test_every_form_of_a_certain_no_rents_nothing(site: Site, fault: str, code: str) -> None:
    with site.fault("create", fault), pytest.raises(Denied) as caught:
        await site.rent("fa/abc/1")

    assert (caught.value.code, site.live) == (code, 0)


@pytest.mark.parametrize(
    ("fault", "rented"),
    [
        ("created_then_504", 1),
        ("created_then_reset", 1),
        ("created_then_no_id", 1),
        ("created_then_error_with_id", 1),
        ("http_500", 0),
        ("html", 0),
        ("empty_string", 0),
        ("empty_object", 0),
        ("timeout", 0),
    ],
)
async def test_a_create_in_doubt_is_unclear_asked_once_and_found_by_its_label(
    site: Site, fault: str, rented: int
) -> None:
    offer = (await site.client.offers(EXAMPLE, DISK_GB))[0]
    client = site.client_with("sim-key", timeout_seconds=0.5 if fault == "timeout" else 20)
    with site.fault("create", fault), pytest.raises(Unclear) as caught:
        await client.launch(order(offer.offer_id))

    assert site.simulated.calls["create"] == 1
    machines = await site.client.machines()
    assert [machine.label for machine in machines] == ["fa/abc/1"] * rented
    if caught.value.provider_id:
        assert caught.value.provider_id == machines[0].provider_id


async def test_a_create_that_is_slower_than_our_patience_is_unclear(site: Site) -> None:
    offer = (await site.client.offers(EXAMPLE, DISK_GB))[0]
    client = site.client_with("sim-key", timeout_seconds=0.3)
    site.simulated.board.replace({"create": [{"kind": "slow", "seconds": 2.0}]})

    with pytest.raises(Unclear):
        await client.launch(order(offer.offer_id))

    assert site.live == 1


@pytest.mark.parametrize(
    "fault",
    ["http_410", "deprecated_200", "null_instances", "half_page", "empty_string", "empty_object", "html", "http_500"],
)
async def test_a_list_that_is_not_whole_is_unreadable(site: Site, fault: str) -> None:
    for n in range(3):
        await site.rent(f"fa/abc/{n}")

    with site.fault("list", fault), pytest.raises(FleetUnreadable):
        await site.client.machines()

    assert len(await site.client.machines()) == 3


async def test_a_list_that_takes_too_long_is_unreadable(site: Site) -> None:
    client = site.client_with("sim-key", timeout_seconds=0.3)

    with site.fault("list", "timeout"), pytest.raises(FleetUnreadable):
        await client.machines()


async def test_one_bad_gateway_among_good_answers_is_not_noticed(site: Site) -> None:
    await site.rent("fa/abc/1")

    with site.fault("list", "html", "http_500", times=1):
        assert len(await site.client.machines()) == 1


async def test_accounts_see_their_own_machines_only() -> None:
    async with a_site(api_keys=("one", "two")) as site:
        one, two = site.client_with("one"), site.client_with("two")
        offer = (await one.offers(EXAMPLE, DISK_GB))[0]
        provider_id = await one.launch(order(offer.offer_id))

        assert (await one.account()).id != (await two.account()).id
        assert await two.machines() == ()
        assert await two.machine(provider_id) is None
        await two.destroy(provider_id)
        assert len(await one.machines()) == 1


async def test_a_wrong_key_is_for_the_owner_to_mend_whatever_is_asked(site: Site) -> None:
    stranger = site.client_with("not-a-key")
    calls = (
        stranger.account(),
        stranger.offers(EXAMPLE, DISK_GB),
        stranger.offer("1", DISK_GB),
        stranger.launch(order("1")),
        stranger.machines(),
        stranger.machine("1"),
        stranger.destroy("1"),
    )
    for call in calls:
        with pytest.raises(BadResource) as caught:
            await call
        assert caught.value.reason == "MarketKeyRefused"
        assert "not-a-key" not in str(caught.value)


async def test_the_default_pace_is_one_that_the_market_takes() -> None:
    async with a_site(rate_limits=True) as site:
        client = site.client_with("sim-key", pacer=Pacer())
        offer = (await client.offers(EXAMPLE, DISK_GB))[0]
        provider_id = await client.launch(order(offer.offer_id))
        await asyncio.gather(*(client.machines() for _ in range(3)), *(client.machine(provider_id) for _ in range(2)))
        await client.destroy(provider_id)

        assert await client.machines() == ()


@pytest.mark.parametrize("retry_after", [True, False])
async def test_a_market_that_is_asked_too_fast_is_left_alone_for_a_while(retry_after: bool) -> None:  # noqa: FBT001
    async with a_site(rate_limits=True, retry_after=retry_after) as site:
        client = site.client_with("sim-key", pacer=Pacer(NO_LIMITS, patience_seconds=0.0))
        answers = await asyncio.gather(*(client.machines() for _ in range(5)), return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, FleetUnreadable)]
        calls = site.simulated.calls["list"]
        with pytest.raises(FleetUnreadable):
            await client.machines()

        assert refused
        assert all(error.retry_after_seconds for error in refused)
        assert site.simulated.calls["list"] == calls


async def test_a_market_that_does_not_listen_is_tried_later_even_by_a_create() -> None:
    async with running(MarketplaceConfig()) as marketplace:
        url = marketplace.url
    async with httpx.AsyncClient() as http:
        markets = VastMarkets(http, Pacer(NO_LIMITS), SearchMemory())
        client = markets.market(api_key="sim-key", base_url=url, worker_url_env="FLEETAGENT_URL")
        for call in (client.launch(order("1")), client.machines(), client.destroy("1"), client.account()):
            with pytest.raises(FleetAgentError) as caught:
                await call
            assert isinstance(caught.value, TryLater)


async def test_offers_of_some_countries_are_of_these(site: Site) -> None:
    country = next(offer.country for offer in await site.client.offers(EXAMPLE, DISK_GB))
    wanted = EXAMPLE.model_copy(update={"countries": (country,)})

    offers = await site.client.offers(wanted, DISK_GB)

    assert offers
    assert {offer.country for offer in offers} == {country}


async def test_many_machines_are_destroyed_in_one_call_and_a_complete_list_says_so(site: Site) -> None:
    ours = [await site.rent(f"fa/abc/{n}") for n in range(5)]
    kept = await site.rent("by hand")

    await site.client.destroy_together(ours)

    assert [machine.provider_id for machine in await site.client.machines()] == [kept]
    assert (site.simulated.calls["destroy_many"], site.simulated.calls["destroy"]) == (1, 0)


@pytest.mark.parametrize("fault", ["http_500", "html", "timeout", "destroyed_then_504", "destroyed_then_reset"])
async def test_many_that_may_not_be_destroyed_are_for_the_caller_to_look_after(site: Site, fault: str) -> None:
    client = site.client_with("sim-key", timeout_seconds=0.5)
    ours = [await site.rent(f"fa/abc/{n}") for n in range(2)]

    with site.fault("destroy_many", fault), pytest.raises(TryLater):
        await client.destroy_together(ours)

    assert site.simulated.calls["destroy_many"] == 1


async def test_the_account_tells_its_credit_and_the_prices_that_hosts_ask_for(site: Site) -> None:
    provider_id = await site.rent("fa/abc/1")
    account = await site.client.account()
    assert account.credit_usd is not None
    assert Decimal(499) < account.credit_usd <= Decimal(500)
    assert await site.client_with("sim-key").price_rises() == ()

    async with httpx.AsyncClient(base_url=site.url) as sim:
        pending = {"factor": 1.5, "pending": True}
        (await sim.post(f"/_sim/machines/{provider_id}/price", json=pending)).raise_for_status()
    (rise,) = await site.client_with("sim-key").price_rises() or ()

    assert rise.provider_id == provider_id
    assert rise.more_usd_per_hour > 0


async def test_agents_with_one_key_that_want_the_cheapest_offer_at_the_same_moment_get_one_each(site: Site) -> None:
    markets = VastMarkets(httpx.AsyncClient(), Pacer(NO_LIMITS), SearchMemory())
    clients = [markets.market(api_key="sim-key", base_url=site.url, worker_url_env="U") for _ in range(5)]
    site.simulated.board.replace({"read_lag": {"create_seconds": 1}})

    async def buy(number: int, client: VastMarket) -> str:
        for _ in clients:
            async with client.buying():
                offer = (await client.offers(EXAMPLE, DISK_GB))[0]
                try:
                    return await client.launch(order(offer.offer_id, f"fa/abc/{number}"))
                except Denied:
                    continue
        raise AssertionError("nothing was to be had")

    bought = await asyncio.gather(*(buy(number, client) for number, client in enumerate(clients)))
    await markets.http.aclose()

    assert len(set(bought)) == 5
    assert site.live == 5
    hosts = [machine.host.machine_id for machine in site.simulated.machines.values()]
    assert len(set(hosts)) == 5


async def test_a_market_whose_certificate_nobody_vouches_for_hears_nothing(tmp_path: Path) -> None:
    made = write_credentials(tmp_path / "made")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.serving_certificate, made.serving_key)
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1))
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    async with server, httpx.AsyncClient() as http:
        markets = VastMarkets(http, Pacer(NO_LIMITS), SearchMemory())
        client = markets.market(api_key="sim-key", base_url=f"https://127.0.0.1:{port}", worker_url_env="U")
        with pytest.raises(TryLater, match="CERTIFICATE_VERIFY_FAILED"):
            await client.launch(order("1"))
        with pytest.raises(FleetUnreadable, match="CERTIFICATE_VERIFY_FAILED"):
            await client.machines()

    assert not any(heard)
