"""What stands before a model, or before Kubernetes, and counts what passes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetagent.adapters.metrics.meter import Metrics
from fleetagent.domain.model import ModelRequest, NothingUsable, Reply
from fleetagent.domain.records import AgentKey
from fleetagent.ports import Cluster, Model


@dataclass(frozen=True, slots=True)
class MeteredModel:
    """A model whose requests are counted for one agent. Implements `ports.Model`."""

    model: Model
    metrics: Metrics
    key: AgentKey

    async def reply(self, request: ModelRequest) -> Reply:
        """See `ports.Model.reply`."""
        with self.metrics.asking(self.key):
            try:
                reply = await self.model.reply(request)
            except NothingUsable as error:
                if error.reply is not None:
                    self.metrics.answered(self.key, error.reply)
                raise
        self.metrics.answered(self.key, reply)
        return reply

    async def context_window(self) -> int | None:
        """See `ports.Model.context_window`."""
        return await self.model.context_window()

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `ports.Model.count_tokens`."""
        return await self.model.count_tokens(request)


@dataclass(frozen=True, slots=True)
class MeteredCluster:
    """Kubernetes, with all Events counted. Implements `ports.Cluster`."""

    cluster: Cluster
    metrics: Metrics

    async def secret(self, namespace: str, name: str, key: str) -> str:
        """See `ports.Cluster.secret`."""
        return await self.cluster.secret(namespace, name, key)

    async def secret_map(self, namespace: str, name: str) -> Mapping[str, str]:
        """See `ports.Cluster.secret_map`."""
        return await self.cluster.secret_map(namespace, name)

    async def patch_status(self, namespace: str, name: str, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """See `ports.Cluster.patch_status`."""
        return await self.cluster.patch_status(namespace, name, status)

    async def event(self, namespace: str, name: str, uid: str, *, kind: str, reason: str, message: str) -> None:
        """See `ports.Cluster.event`."""
        self.metrics.said(AgentKey(namespace, name), kind, reason)
        await self.cluster.event(namespace, name, uid, kind=kind, reason=reason, message=message)

    async def installation_stop(self) -> str | None:
        """See `ports.Cluster.installation_stop`."""
        return await self.cluster.installation_stop()
