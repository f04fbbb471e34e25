"""kopf's events and beats → triggers. Nothing here decides, and nothing happens on import."""

import hashlib
import json
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import kopf

from fleetagent.agent.departure import looks_again_after_s
from fleetagent.agent.triggers import Triggers
from fleetagent.domain.resource import GROUP, PLURAL, VERSION
from fleetagent.entrypoints.signs import Signs

FLEETAGENTS = (GROUP, VERSION, PLURAL)
LONGEST_BACKOFF_S = 8.0


class Remembered(kopf.AnnotationsDiffBaseStorage):
    """What kopf keeps of a resource, in an annotation, to see that it changed: hashes of spec and of what people say.

    A copy of either, as is usual, could exceed what a resource may hold in annotations. Every patch would then be
    refused, also the one that takes the finalizer off.
    """

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:  # noqa: ARG002
        """The hashes."""
        said = {k: _hash(v) for k, v in body.metadata.annotations.items() if k.startswith(f"{GROUP}/")}
        metadata = {"metadata": {"annotations": said}} if said else {}
        return cast("kopf.BodyEssence", {**metadata, "spec": _hash(body.get("spec"))})


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def register(registry: kopf.OperatorRegistry, triggers: Triggers, signs: Signs, *, beat_seconds: float) -> None:
    """Tell kopf what to call: the timer and the change handlers both lead into the agent loop by the same path."""

    def spread(**_: Any) -> float:
        """After a start, the beats of many agents must not all fall into one moment for ever."""
        return random.uniform(0, beat_seconds)  # noqa: S311  # no secret

    @kopf.timer(*FLEETAGENTS, registry=registry, id="beat", interval=beat_seconds, initial_delay=spread)
    async def beat(body: kopf.Body, **_: Any) -> None:
        signs.beat()
        triggers.beat(dict(body))

    @kopf.on.resume(*FLEETAGENTS, registry=registry, id="resumed")
    @kopf.on.create(*FLEETAGENTS, registry=registry, id="created")
    @kopf.on.update(*FLEETAGENTS, registry=registry, id="spec", field="spec")
    @kopf.on.update(*FLEETAGENTS, registry=registry, id="annotations", field="metadata.annotations")
    async def changed(body: kopf.Body, **_: Any) -> None:
        triggers.look(dict(body))

    @kopf.on.delete(*FLEETAGENTS, registry=registry, id="deleted")
    async def deleted(body: kopf.Body, retry: int, **_: Any) -> None:
        if (keeps := await triggers.delete(dict(body))) is not None:
            raise kopf.TemporaryError(keeps, delay=looks_again_after_s(retry))

    @kopf.on.event(*FLEETAGENTS, registry=registry, id="seen")
    async def seen(event: kopf.RawEvent, body: kopf.Body, **_: Any) -> None:
        meta = body.metadata  # kopf's timers begin when its finalizer is there, and end with the resource
        beats = event["type"] != "DELETED" and bool(meta.get("finalizers")) and not meta.get("deletionTimestamp")
        signs.event(meta["uid"], beats=beats)
        if event["type"] is None:  # listed: kopf begins to watch, or goes on after a pause, which is no `resume` to it
            triggers.look(dict(body))
        elif event["type"] == "DELETED":
            await triggers.gone(dict(body))
        elif not body.metadata.get("deletionTimestamp"):
            triggers.changed(dict(body))  # before kopf's own bookkeeping, which takes some milliseconds


@dataclass(frozen=True, slots=True)
class Peering:
    """How replicas take turns."""

    name: str
    priority: int
    """Who has the highest works; no two may have the same."""
    lifetime_seconds: int
    """After this time without a sign a replica is passed over."""


def set_up(given: kopf.OperatorSettings, *, namespaced: bool, peering: Peering | None, silent_seconds: float) -> None:
    """Make kopf behave: no Events of its own, every stream bounded in time."""
    given.posting.enabled = False
    given.persistence.diffbase_storage = Remembered()
    given.peering.standalone = peering is None
    if peering is not None:
        given.peering.name = peering.name
        given.peering.mandatory = True
        given.peering.priority = peering.priority
        given.peering.lifetime = peering.lifetime_seconds
        given.peering.stealth = True
    _bound(given, silent_seconds)
    given.execution.max_workers = 4
    given.scanning.disabled = namespaced  # else kopf asks for cluster-wide lists that a namespaced Role refuses


def _bound(given: kopf.OperatorSettings, silent_seconds: float) -> None:
    """Let no request last for ever, and each watch be heard of at least twice before it counts as dead.

    The API server ends a watch after `server_timeout`; one that neither ends nor says anything, not even that nothing
    happened, which it does once a minute, is given up after `inactivity_timeout`. What fails is tried again soon, and
    for longer than that, so that a watch that is refused begins again and again: kopf's own patience would end the
    process within a minute. Nor for much longer: a patch that fails holds up what is said of its resource.
    """
    given.watching.connect_timeout = min(10.0, silent_seconds / 4)
    given.watching.inactivity_timeout = min(70.0, silent_seconds / 4)
    given.watching.server_timeout = int(silent_seconds * 0.4)
    given.watching.client_timeout = silent_seconds / 2
    given.networking.connect_timeout = min(10.0, silent_seconds / 4)
    given.networking.request_timeout = min(30.0, silent_seconds / 2)
    longest = min(LONGEST_BACKOFF_S, silent_seconds / 10)
    rising = [s for s in (0.5, 1.0, 2.0, 4.0) if s < longest]
    given.networking.error_backoffs = (*rising, *[longest] * math.ceil(silent_seconds / 3 / longest))
    given.queueing.error_delays = (
        *rising,
        longest,
    )  # else, of a resource whose patches fail, nothing is heard for 610 s
