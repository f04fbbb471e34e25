"""A million calls of a hostile model, 1,000 in each of 1,000 worlds, and state machines that seek a way past limits.

A world that fails is told by its seed: `make nightly ARGS="-k calls --first-seed=<seed> --blocks=1"` tells it again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from support.hostile.caller import a_story
from support.hostile.machine import HostileModel

WORLDS_A_BLOCK = 50
CALLS_A_WORLD = 1_000
MANY = settings(max_examples=1_000, stateful_step_count=60, print_blob=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each wrong call is logged, and there are a million."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(3600)
def test_hostile_calls_pass_no_limit(first_seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    done: Counter[str] = Counter()
    broken: list[str] = []
    for seed in range(first_seed, first_seed + WORLDS_A_BLOCK):
        try:
            world = asyncio.run(a_story(seed, CALLS_A_WORLD))
        except AssertionError as breach:
            broken.append(f"seed {seed}: {breach}")
            continue
        done += Counter(
            calls=world.calls,
            launches=world.auditor.launches,
            stops=world.auditor.stops,
            refusals=world.worlds.refusals.total(),
        )
    with capsys.disabled():
        print(f" {dict(done)}")  # noqa: T201  # a night's run is watched

    assert not broken, "\n".join(broken)


@pytest.mark.timeout(3600)
def test_hostile_state_machines_find_no_way_past_a_limit() -> None:
    run_state_machine_as_test(HostileModel, settings=MANY)
