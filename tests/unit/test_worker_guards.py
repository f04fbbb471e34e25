"""What the worker endpoint lets pass, and how much of it is believed. Time is a value here."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.adapters.postgres.doorman import Doorman
from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.domain.allowance import Allowances
from fleetagent.domain.workers import hardly_proves, plausible_rate
from fleetagent.entrypoints.guarded import Crowd, peer_of
from fleetagent.errors import TryLater


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_so_much_at_once_then_one_in_each_span_and_asking_early_costs_nothing() -> None:
    clock = Clock()
    calls = Allowances(3, 2.0, clock)

    assert [calls.wait_seconds("a") for _ in range(5)] == [0, 0, 0, 2, 2]
    clock.now += 1.5
    assert calls.wait_seconds("a") == 0.5
    clock.now += 0.5
    assert [calls.wait_seconds("a") for _ in range(2)] == [0, 2]
    clock.now += 1e6
    assert [calls.wait_seconds("a") for _ in range(4)] == [0, 0, 0, 2]
    assert calls.wait_seconds("b") == 0


def test_however_many_ask_only_so_many_are_remembered() -> None:
    calls = Allowances(1, 1.0, Clock(), most=10)
    for who in range(1000):
        calls.wait_seconds(who)

    assert len(calls._left) == 10


class Hashes:
    """The database: whose secrets it holds, and how often it was asked."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.looks = 0
        self.away = False

    async def __call__(self) -> frozenset[str]:
        self.looks += 1
        if self.away:
            raise TryLater("away")
        return frozenset(map(token_hash, self.tokens))


def token(number: int) -> str:
    return f"token-{number:026}"


async def test_a_thousand_strangers_a_second_make_it_look_once_a_second() -> None:
    clock, hashes = Clock(), Hashes(token(0))
    doorman = Doorman(hashes, clock)
    for number in range(1, 10_001):
        clock.now += 0.001
        assert await doorman.knows(token(number)) is not True
        assert await doorman.knows(token(0)) is True

    assert hashes.looks <= 10 + 10 + 1


async def test_no_is_said_only_after_a_look_and_not_known_now_otherwise() -> None:
    clock, hashes = Clock(), Hashes()
    doorman = Doorman(hashes, clock)

    answers = [await doorman.knows(token(number)) for number in range(20)]
    hashes.tokens.append(token(99))
    too_early = await doorman.knows(token(99))
    clock.now += 1

    assert answers == [False] * 10 + [None] * 10
    assert (too_early, await doorman.knows(token(99))) == (None, True)


@pytest.mark.parametrize("text", ["", "short", "x" * 200, "a" * 31 + "/", "a" * 31 + "\n", "a" * 31 + "ä", "../" * 8])
async def test_what_cannot_be_a_secret_is_no_reason_to_look(text: str) -> None:
    hashes = Hashes()

    assert await Doorman(hashes, Clock()).knows(text) is False
    assert hashes.looks == 0


async def test_while_the_database_is_away_it_is_asked_as_seldom_and_who_was_known_still_is() -> None:
    clock, hashes = Clock(), Hashes(token(0))
    doorman = Doorman(hashes, clock)
    assert await doorman.knows(token(0)) is True
    hashes.away = True

    for number in range(1, 10):
        with pytest.raises(TryLater):
            await doorman.knows(token(number))
    assert [await doorman.knows(token(number)) for number in range(10, 20)] == [None] * 10
    assert await doorman.knows(token(0)) is True
    assert hashes.looks == 10


def test_the_crowd_is_bounded_as_a_whole_and_for_each_and_keeps_no_names_of_the_gone() -> None:
    crowd = Crowd(most=4, most_of_a_peer=3)

    assert [crowd.enter(peer) for peer in ("a", "a", "a", "a", "b", "c")] == [True, True, True, False, True, False]
    for peer in ("a", "a", "a", "b"):
        crowd.leave(peer)
    assert not crowd._connections
    assert crowd.enter("c")


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("203.0.113.7", 5), "203.0.113.7"),
        (("::ffff:203.0.113.7", 5, 0, 0), "203.0.113.7"),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2:ffff::1", 5, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5, 0, 3), "fe80::/64"),
        (("testclient", 5), "testclient"),
        (None, ""),
        ("/run/a.sock", ""),
    ],
    ids=str,
)
def test_a_peer_is_one_address_or_one_network_of_ipv6(address: object, peer: str) -> None:
    assert peer_of(address) == peer


@pytest.mark.parametrize(("gpus", "most"), [(0, 200.0), (1, 200.0), (2, 320.0), (8, 1040.0)])
def test_what_is_counted_at_most_is_what_so_many_of_the_fastest_gpus_make(gpus: int, most: float) -> None:
    assert plausible_rate(gpus) == most


@given(st.integers())
def test_no_number_of_gpus_makes_every_rate_plausible(gpus: int) -> None:
    assert 200 <= plausible_rate(gpus) <= 200 * 32


def lives(
    number: int, *, proves_minutes: float, within_minutes: float = 30.0
) -> tuple[list[tuple[str, datetime]], datetime]:
    """A machine that began so often, and the moment when it registers once more."""
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    timeline = [("requested", now), ("loading", now + timedelta(hours=1))]
    now += timedelta(hours=9)
    for _ in range(number):
        proving = now + timedelta(minutes=within_minutes - proves_minutes)
        timeline += [("registered", now), ("benchmarking", now), ("proving", proving)]
        now += timedelta(minutes=within_minutes)
    return timeline, now


@pytest.mark.parametrize(
    ("number", "proves_minutes", "because"),
    [
        (1, 0.0, None),
        (3, 0.0, None),
        (4, 0.0, "its worker began again 4 times and proved for 0 of 120 min"),
        (4, 1.0, "its worker began again 4 times and proved for 4 of 120 min"),
        (4, 7.5, None),
        (40, 7.4, "its worker began again 4 times and proved for 30 of 120 min"),
        (40, 29.0, None),
        (0, 0.0, None),
    ],
)
def test_a_worker_that_crashes_in_a_loop_is_given_up_and_one_that_mostly_proves_is_not(
    number: int, proves_minutes: float, because: str | None
) -> None:
    timeline, now = lives(number, proves_minutes=proves_minutes)

    assert hardly_proves(timeline, now) == because


def test_what_a_worker_did_long_ago_does_not_save_or_doom_it_now() -> None:
    good, later = lives(20, proves_minutes=29)
    bad, now = lives(4, proves_minutes=0)
    moved = [(phase, at + (later - bad[2][1])) for phase, at in bad[2:]]

    assert hardly_proves([*good, *moved], now + (later - bad[2][1])) is not None


async def test_a_look_that_failed_says_of_nobody_that_he_is_not_known() -> None:
    """A new machine whose worker is told so ends for good."""
    clock, hashes = Clock(), Hashes()
    first_ends = asyncio.Event()

    async def slow_then_away_then_well() -> frozenset[str]:
        if hashes.looks == 0:
            await first_ends.wait()
        hashes.away = hashes.looks == 1
        hashes.tokens += [token(2)] if hashes.away else []
        clock.now += 0.1
        return await hashes()

    doorman = Doorman(slow_then_away_then_well, clock)
    asked = []
    for number in range(3):
        clock.now += 0.1
        asked.append(asyncio.create_task(doorman.knows(token(number))))
        await asyncio.sleep(0)
    clock.now += 0.1
    first_ends.set()

    stranger, unlucky, newcomer = await asyncio.gather(*asked, return_exceptions=True)

    assert (stranger, newcomer) == (False, True)
    assert isinstance(unlucky, TryLater)
