"""A whole FleetAgent, as the API server stores it, and the names by which people and programs find it."""

import contextlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, ValidationError

from fleetagent.domain.resource.spec import FleetAgentSpec
from fleetagent.domain.resource.status import FleetAgentStatus
from fleetagent.domain.resource.wire import Wire
from fleetagent.errors import BadResource

GROUP = "fleetagent.dev"
VERSION = "v1alpha1"
PLURAL = "fleetagents"
KIND = "FleetAgent"


class Annotation(StrEnum):
    """What people say by `kubectl annotate`; each new value is served once."""

    REQUESTED_AT = f"{GROUP}/requested-at"
    RESET_REQUESTED_AT = f"{GROUP}/reset-requested-at"
    MESSAGE = f"{GROUP}/message"
    ACKNOWLEDGE = f"{GROUP}/acknowledge"
    APPROVE = f"{GROUP}/approve"
    REJECT = f"{GROUP}/reject"
    ABANDON = f"{GROUP}/abandon"


class Metadata(Wire):
    """The part of a resource's metadata that the agent needs."""

    namespace: str
    name: str
    uid: str
    generation: int = 0
    annotations: Mapping[str, str] = Field(default={})
    deletion_timestamp: datetime | None = None


class FleetAgent(Wire):
    """One resource: who it is, what it shall do, what was last reported."""

    metadata: Metadata
    spec: FleetAgentSpec
    status: FleetAgentStatus = FleetAgentStatus()

    @classmethod
    def stored(cls, body: Mapping[str, Any]) -> Self:
        """Read what the API server stores. `BadResource` where the spec is one that today's CRD would refuse.

        A status that cannot be read counts as none: it is a report, and the next one replaces it.
        """
        try:
            return cls(
                metadata=Metadata.read(body["metadata"]),
                spec=FleetAgentSpec.read(body["spec"]),
                status=readable_status(body.get("status") or {}),
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, ("spec", *first["loc"])))
            raise BadResource("Ready", "InvalidSpec", f"{where}: {first['msg']}; apply a corrected spec") from error

    def said(self, annotation: Annotation) -> str | None:
        """The annotation's value; None where there is none."""
        return self.metadata.annotations.get(annotation)


def readable_status(data: Mapping[str, Any]) -> FleetAgentStatus:
    """The parts of the status that can be read: a spoilt one must not take `lastRunID` with it."""
    with contextlib.suppress(ValidationError):  # nearly always all of it can
        return FleetAgentStatus.read(data)
    parts = {}
    for name, field in FleetAgentStatus.model_fields.items():
        wire = field.alias or name
        try:
            FleetAgentStatus.read({wire: data.get(wire)})
        except ValidationError:
            continue
        parts[wire] = data.get(wire)
    return FleetAgentStatus.read(parts)
