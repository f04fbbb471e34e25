"""What the killed processes were doing: the world before, what is asked of the agent, and what the process does."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetagent.sim.marketplace import MarketplaceConfig
from support.asking import LOOK, launch, stop
from support.engine import NOBODY, Engine, prefix_of
from support.manifests import Json, merged

DUE, LATER, ASKED = "was due at the crash", "not due for long", "look at the new one"
Act = Callable[[Engine], Awaitable[None]]


@dataclass(frozen=True)
class Machine:
    """One of ours that exists before: proving at a rate, or so many minutes in loading."""

    word: str
    rate: float | None = None
    loading_minutes: int = 0

    @property
    def label(self) -> str:
        return f"{prefix_of()}{self.word}"

    @property
    def order(self) -> Json:
        """How the market is told to have it. Nobody's program runs in it."""
        env = {MarketplaceConfig().worker_url_env: f"{NOBODY}/workers/{self.word}", "MIN_RATE": "0"}
        return {"label": self.label, "gpu_name": "RTX 5090", "env": env, "disk_gb": 250}


@dataclass(frozen=True)
class Scene:
    """One story that is cut at each of its points."""

    name: str
    act: Act
    machines: tuple[Machine, ...]
    spec: Json = field(default_factory=dict)
    metadata: Json = field(default_factory=dict)
    rounds: Callable[[Mapping[str, str], list[str]], list[list[Json]]] | None = None
    """What the model calls, a list a round, from the machines' and the offers' ids; None: the simulator's policy."""
    due: str = "SpecChange"
    """What is due of itself: the changed spec, or the schedule."""
    waits: bool = False
    """The rounds were asked for before, in mode Approve: what they wished waits for a person."""
    ends: bool = False
    """The resource is deleted at the end."""

    def body(self, base: Json) -> Json:
        """The resource as it is when the process begins."""
        return merged(base, {"spec": {"target": {"proofsPerHour": 100}, **self.spec}, "metadata": self.metadata})


async def one_run(engine: Engine) -> None:
    """Whatever is due, and the report afterwards."""
    await engine.beat()
    await engine.beat(seconds=10)


async def reset_during_the_create(engine: Engine) -> None:
    """The reset is seen just when the create leaves."""
    seen: list[bool] = []
    hooks = engine.built.http.event_hooks

    async def when_it_leaves(request: Any) -> None:
        if request.method == "PUT" and not seen:
            seen.append(True)
            engine.annotate(reset_requested_at="now")
            await engine.passed_beside()

    hooks["request"] = [*hooks["request"], when_it_leaves]
    engine.built.http.event_hooks = hooks
    await engine.beat()
    await engine.beat(seconds=10)
    assert seen, "there was no create to reset in"


async def deleted(engine: Engine) -> None:
    """Asked again and again, as the finalizer's handler is, until nothing is left."""
    for _ in range(12):
        if await engine.built.triggers.delete(engine.cluster.body) is None:
            return
        engine.clock.advance(seconds=45)
    raise AssertionError("the deletion does not come to an end")


def launch_stop_and_wake(ids: Mapping[str, str], offers: list[str]) -> list[list[Json]]:
    """Below target: one machine is launched, a second is refused, a weak one is stopped, a wake is asked for."""
    return [
        [LOOK],
        [launch(offer, "more") for offer in offers[:2]],
        [stop(ids["weak"], "weak")],
        [
            {"name": "schedule_next_check", "arguments": {"minutes": 5, "reason": ASKED}},
            {"name": "raise_alert", "arguments": {"severity": "info", "message": "a machine is on its way"}},
        ],
    ]


def launch_one(_: Mapping[str, str], offers: list[str]) -> list[list[Json]]:
    """The first offer, as it was shown."""
    return [[LOOK], [launch(offers[0], "more")]]


def stop_one(ids: Mapping[str, str], _: list[str]) -> list[list[Json]]:
    """The one that is not needed."""
    return [[stop(ids["fair"], "not needed")]]


def launch_and_wake(ids: Mapping[str, str], offers: list[str]) -> list[list[Json]]:
    """One launch, and a check."""
    check = {"name": "schedule_next_check", "arguments": {"minutes": 5, "reason": ASKED}}
    return [*launch_one(ids, offers), [check]]


FAIR, WEAK = Machine("fair", rate=50), Machine("weak", rate=10)
STRONG, STUCK = Machine("strong", rate=120), Machine("stuck", loading_minutes=120)
ASKED_FOR = {"annotations": {"fleetagent.dev/requested-at": "first", "fleetagent.dev/message": "hold no fewer"}}
APPROVE = {"mode": "Approve", "approvalExpiry": "12h"}
APPROVED = merged(ASKED_FOR, {"annotations": {"fleetagent.dev/approve": "action-1"}})

SCENES: Mapping[str, Scene] = {
    scene.name: scene
    for scene in (
        Scene("launch, stop, wake", one_run, (FAIR, WEAK), metadata=ASKED_FOR, rounds=launch_stop_and_wake),
        Scene(
            "reset during a create", reset_during_the_create, (FAIR, WEAK), metadata=ASKED_FOR, rounds=launch_and_wake
        ),
        Scene(
            "an approved launch",
            one_run,
            (FAIR, WEAK),
            spec=APPROVE,
            metadata=APPROVED,
            rounds=launch_one,
            waits=True,
        ),
        Scene(
            "an approved stop", one_run, (STRONG, FAIR), spec=APPROVE, metadata=APPROVED, rounds=stop_one, waits=True
        ),
        Scene(
            "a machine is overdue",
            one_run,
            (STRONG, STUCK),
            spec={"fleet": {"timeouts": {"loading": "1h"}}},
            due="Schedule",
        ),
        Scene(
            "the resource is deleted",
            deleted,
            (STRONG, FAIR, STUCK),
            metadata={"deletionTimestamp": "2026-11-30T00:00:00Z", "finalizers": ["fleetagent.dev/machines"]},
            ends=True,
        ),
    )
}
