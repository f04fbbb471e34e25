"""The long soak: many agents, two replicas, and blows; only by `make soak`."""

from pathlib import Path

import pytest

from fleetagent.dev.controlplane import ControlPlane
from support.soak.plan import Plan
from support.soak.story import soak
from support.stage import a_stage

MOST_MB_PER_HOUR = 60.0
"""Of growth after the first quarter: 20 minutes of it are less than what one full collection may leave."""


@pytest.mark.timeout(7200)
def test_no_run_is_lost_late_or_doubled_and_memory_stays_flat(
    pytestconfig: pytest.Config,
    capsys: pytest.CaptureFixture[str],
    control_plane: ControlPlane,
    namespace: str,
    database_url: str,
    tmp_path: Path,
) -> None:
    asked = pytestconfig.getoption
    if asked("--agents", None) is None:
        pytest.skip("only when this folder is named: `make soak`")
    plan = Plan(
        agents=asked("--agents"),
        restless=asked("--restless"),
        rounds=asked("--rounds"),
        interval_s=asked("--interval"),
        blows=asked("--blows"),
        seed=asked("--soak-seed"),
    )

    def say(words: str) -> None:
        with capsys.disabled():
            print(words, flush=True)  # noqa: T201  # somebody waits for twenty minutes

    market = {"moving": False, "offers": 40 + 5 * plan.agents, "credit_usd": 1e9}
    with a_stage(control_plane, namespace, database_url, tmp_path, **market) as stage:
        done = soak(stage, plan, say=say)
        figures: Path = asked("--figures")
        figures.parent.mkdir(parents=True, exist_ok=True)
        done.write(figures)
        say(f"written to {figures}")
        stage.check_books()

    assert done.broken() == []
    assert done.found.memory is not None
    assert done.found.memory.mb_per_hour < MOST_MB_PER_HOUR
