"""Who of several replicas goes first."""

from datetime import UTC, datetime, timedelta

from fleetagent.bootstrap.peering import priority

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_the_elder_goes_first() -> None:
    ages = [NOON + timedelta(seconds=s) for s in (0, 0.001, 1, 60, 86_400 * 365)]

    given = [priority(started_at) for started_at in ages]

    assert given == sorted(given, reverse=True)
    assert len(set(given)) == len(given)


def test_of_those_that_start_at_the_same_moment_chance_lets_one_go_first() -> None:
    given = {priority(NOON) for _ in range(10)}

    assert len(given) > 1
    assert max(given) < 2**63  # as the API server keeps whole numbers
