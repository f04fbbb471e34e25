"""Whom a run is for: the resource as it was read, and the row that stands for it."""

import hashlib
import json
from dataclasses import dataclass

from fleetagent.domain.records import AgentKey, AgentRecord
from fleetagent.domain.resource import FleetAgent, FleetAgentSpec


@dataclass(frozen=True, slots=True)
class Subject:
    """A FleetAgent and what the database knows of it; `label_prefix` marks its machines on the market."""

    agent: FleetAgent
    record: AgentRecord
    label_prefix: str

    @property
    def spec(self) -> FleetAgentSpec:
        """What the agent shall do."""
        return self.agent.spec

    @property
    def key(self) -> AgentKey:
        """Its name in the cluster."""
        return self.record.key

    @property
    def endpoint(self) -> str:
        """Whose tokens are counted: one ratio for each endpoint and model."""
        return f"{self.spec.model.base_url} {self.spec.model.name}"


def label_prefix(cluster: str, key: AgentKey) -> str:
    """`fa/<hash>/`: the same for ever for this name, so that machines are found again after any loss."""
    digest = hashlib.sha256(json.dumps([cluster, key.namespace, key.name]).encode()).hexdigest()
    return f"fa/{digest[:12]}/"


def spec_hash(spec: FleetAgentSpec) -> str:
    """Changes with whatever may change the agent's mind; a new session does not, nor a new version's new defaults."""
    data = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    context = {name: value for name, value in data.pop("context", {}).items() if name != "session"}
    data |= {"context": context} if context else {}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
