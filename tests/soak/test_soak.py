"""The long soak: many agents, two replicas, and blows; only by `make soak`."""

from pathlib import Path

import pytest

from fleetagent.dev.controlplane import ControlPlane
from support.soak.plan import Plan
from support.soak.story import soak
from support.stage import a_stage

MOST_GROWTH = 1.1
"""What the process that lived longest may take at its end, beside what it took at a quarter of its life."""

LONG_S = 600
"""A soak of this length has a process that lived long enough to tell."""


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
    grown = done.found.memory
    assert grown is not None or plan.lasts_s < LONG_S
    assert grown is None or grown.at_the_end_mb < MOST_GROWTH * grown.at_a_quarter_mb
