"""kopf's events and beats → triggers. Nothing here decides, and nothing happens on import."""

import hashlib
import json
import random
from collections.abc import Iterable
from typing import Any, cast

import kopf

from fleetagent.agent.triggers import Triggers
from fleetagent.domain.resource import GROUP, PLURAL, VERSION

FLEETAGENTS = (GROUP, VERSION, PLURAL)
DELETION_LOOKS_AGAIN_S = 3


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


def register(registry: kopf.OperatorRegistry, triggers: Triggers, *, beat_seconds: float) -> None:
    """Tell kopf what to call: the timer and the change handlers both lead into the agent loop by the same path."""

    def spread(**_: Any) -> float:
        """After a start, the beats of many agents must not all fall into one moment for ever."""
        return random.uniform(0, beat_seconds)  # noqa: S311  # no secret

    @kopf.timer(*FLEETAGENTS, registry=registry, id="beat", interval=beat_seconds, initial_delay=spread)
    async def beat(body: kopf.Body, **_: Any) -> None:
        triggers.look(dict(body))

    @kopf.on.resume(*FLEETAGENTS, registry=registry, id="resumed")
    @kopf.on.create(*FLEETAGENTS, registry=registry, id="created")
    @kopf.on.update(*FLEETAGENTS, registry=registry, id="spec", field="spec")
    @kopf.on.update(*FLEETAGENTS, registry=registry, id="annotations", field="metadata.annotations")
    async def changed(body: kopf.Body, **_: Any) -> None:
        triggers.look(dict(body))

    @kopf.on.delete(*FLEETAGENTS, registry=registry, id="deleted")
    async def deleted(body: kopf.Body, **_: Any) -> None:
        if (keeps := await triggers.delete(dict(body))) is not None:
            raise kopf.TemporaryError(keeps, delay=DELETION_LOOKS_AGAIN_S)

    @kopf.on.event(*FLEETAGENTS, registry=registry, id="gone")
    async def gone(event: kopf.RawEvent, body: kopf.Body, **_: Any) -> None:
        if event["type"] == "DELETED":
            await triggers.gone(dict(body))


def set_up(given: kopf.OperatorSettings, *, namespaced: bool) -> None:
    """Make kopf behave: no Events of its own, every stream bounded in time."""
    given.posting.enabled = False
    given.persistence.diffbase_storage = Remembered()
    given.peering.standalone = True
    given.watching.connect_timeout = 10
    given.watching.server_timeout = 240
    given.watching.client_timeout = 300
    given.networking.request_timeout = 30
    given.execution.max_workers = 4
    given.scanning.disabled = namespaced  # else kopf asks for cluster-wide lists that a namespaced Role refuses
