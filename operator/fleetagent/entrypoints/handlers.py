"""kopf's events and beats → triggers. Nothing here decides, and nothing happens on import."""

from typing import Any

import kopf

from fleetagent.agent.triggers import Triggers, key_of
from fleetagent.domain.resource import GROUP, PLURAL, VERSION

FLEETAGENTS = (GROUP, VERSION, PLURAL)
DELETION_LOOKS_AGAIN_S = 3


def register(registry: kopf.OperatorRegistry, triggers: Triggers, *, beat_seconds: float) -> None:
    """Tell kopf what to call: the timer and the change handlers both lead into the agent loop by the same path."""

    @kopf.timer(*FLEETAGENTS, registry=registry, id="beat", interval=beat_seconds)
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
            await triggers.gone(key_of(body))


def settings(given: kopf.OperatorSettings, *, namespaced: bool) -> None:
    """Set kopf up: no Events of its own, every stream bounded in time."""
    given.posting.enabled = False
    given.peering.standalone = True
    given.watching.connect_timeout = 10
    given.watching.server_timeout = 240
    given.watching.client_timeout = 300
    given.networking.request_timeout = 30
    given.execution.max_workers = 4
    given.scanning.disabled = namespaced  # else kopf asks for cluster-wide lists that a namespaced Role refuses
