"""What stands behind one FleetAgent's spec: market, demand, model, each with its Secret."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
import httpx2

from fleetagent.adapters.demand.curio import CurioSource
from fleetagent.adapters.demand.dsn import read_dsn
from fleetagent.adapters.demand.http import HttpSource
from fleetagent.adapters.demand.prometheus import PrometheusSource
from fleetagent.adapters.demand.static import StaticSource
from fleetagent.adapters.metrics import MeteredModel, Metrics
from fleetagent.adapters.model.client import OpenAIModel
from fleetagent.adapters.model.endpoints import Endpoints
from fleetagent.adapters.reach import Reach
from fleetagent.adapters.vast.client import VastMarkets
from fleetagent.agent.clock import Now
from fleetagent.domain.demand import Demand
from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import (
    CurioDemand,
    FleetAgent,
    HttpDemand,
    PrometheusDemand,
    SecretKeyRef,
    StaticDemand,
)
from fleetagent.errors import BadResource, Denied, TryLater
from fleetagent.ports import Cluster, DemandSource, Market, Model

KEYS_REMEMBERED = 10_000


@dataclass(slots=True)
class RealWorlds:
    """Implements `ports.Worlds`. Secrets are read in the resource's own namespace only."""

    cluster: Cluster
    markets: VastMarkets
    http: httpx.AsyncClient
    model_http: httpx2.AsyncClient
    reach: Reach
    metrics: Metrics
    worker_url: str | None
    """Where machines of this installation report to; None: nowhere."""
    now: Now
    endpoints: Endpoints = field(default_factory=Endpoints)
    """What the model servers have taught us; agents with one server share it."""
    metered: dict[str, AgentKey] = field(default_factory=dict)
    """The agents (by uid) that metrics are kept of."""
    last_keys: dict[str, str] = field(default_factory=dict, repr=False)
    """The market key that each resource (by uid) used last: a deleted namespace takes the Secret first."""

    async def market(self, agent: FleetAgent) -> Market:
        """See `ports.Worlds.market`."""
        vast, meta = agent.spec.fleet.vast, agent.metadata
        await self.reach.check(vast.base_url, field="spec.fleet.vast.baseURL", condition="FleetKnown")
        try:
            key = await self._secret(agent, vast.api_key_secret_ref, "FleetKnown", "spec.fleet.vast.apiKeySecretRef")
        except BadResource:
            if meta.deletion_timestamp is None or meta.uid not in self.last_keys:
                raise
            key = self.last_keys[meta.uid]
        if len(self.last_keys) < KEYS_REMEMBERED or meta.uid in self.last_keys:
            self.last_keys[meta.uid] = key
        return self.markets.market(api_key=key, base_url=vast.base_url, worker_url_env=vast.instance.worker_url_env)

    async def demand(self, agent: FleetAgent) -> DemandSource:
        """See `ports.Worlds.demand`."""
        match agent.spec.demand.source:
            case StaticDemand(active=active):
                return StaticSource(active)
            case HttpDemand(url=url):
                await self.reach.check(url, field="spec.demand.http.url", condition="DemandKnown")
                return Named(HttpSource(self.http, url, now=self.now), "spec.demand.http.url")
            case PrometheusDemand(url=url, query=query):
                await self.reach.check(url, field="spec.demand.prometheus.url", condition="DemandKnown")
                return Named(PrometheusSource(self.http, url, query, now=self.now), "spec.demand.prometheus.url")
            case CurioDemand(dsn_secret_ref=ref):
                where = "spec.demand.curio.dsnSecretRef"
                dsn = read_dsn(await self._secret(agent, ref, "DemandKnown", where))
                for address in dsn.addresses:
                    await self.reach.check(address, field=where, condition="DemandKnown")
                return CurioSource(dsn)

    async def model(self, agent: FleetAgent) -> Model:
        """See `ports.Worlds.model`."""
        spec = agent.spec.model
        await self.reach.check(spec.base_url, field="spec.model.baseURL", condition="ModelAvailable")
        key = None
        if spec.api_key_secret_ref is not None:
            key = await self._secret(agent, spec.api_key_secret_ref, "ModelAvailable", "spec.model.apiKeySecretRef")
        model = OpenAIModel(
            base_url=spec.base_url,
            api_key=key,
            name=spec.name,
            http=self.model_http,
            habits=self.endpoints.habits(spec.base_url, key, spec.name),
            gate=self.endpoints.gate(spec.base_url, key),
            sizes=self.endpoints.sizes(spec.base_url, key, spec.name),
        )
        meta = agent.metadata
        known_as = self.metered.setdefault(meta.uid, AgentKey(meta.namespace, meta.name))
        return MeteredModel(model, self.metrics, known_as)

    async def instance_env(self, agent: FleetAgent) -> Mapping[str, str]:
        """See `ports.Worlds.instance_env`."""
        if self.worker_url is None:
            raise BadResource(
                "CanLaunch",
                "NoWorkerURL",
                "this installation has no FLEETAGENT_WORKER_URL: machines could not report their rate; "
                "its administrator must set it",
            )
        template = agent.spec.fleet.vast.instance
        secret: Mapping[str, str] = {}
        if template.env_from_secret_ref is not None:
            try:
                secret = await self.cluster.secret_map(agent.metadata.namespace, template.env_from_secret_ref.name)
            except Denied as error:
                raise BadResource(
                    "CanLaunch", error.code, f"spec.fleet.vast.instance.envFromSecretRef: {error}"
                ) from error
        return {**secret, **template.env}

    def forget(self, uid: str) -> None:
        """See `ports.Worlds.forget`."""
        self.last_keys.pop(uid, None)
        if (known_as := self.metered.pop(uid, None)) is not None:
            self.metrics.forget(known_as)

    async def _secret(self, agent: FleetAgent, ref: SecretKeyRef, condition: str, where: str) -> str:
        try:
            value = await self.cluster.secret(agent.metadata.namespace, ref.name, ref.key)
        except Denied as error:
            raise BadResource(condition, error.code, f"{where}: {error}") from error
        if not value.strip():
            raise BadResource(condition, "SecretEmpty", f"{where}: Secret {ref.name} holds nothing under {ref.key!r}")
        return value.strip()


@dataclass(frozen=True, slots=True)
class Named:
    """A demand source whose failures say where the resource names it. Implements `ports.DemandSource`."""

    source: DemandSource
    field: str

    async def demand(self) -> Demand:
        """See `ports.DemandSource.demand`."""
        try:
            return await self.source.demand()
        except TryLater as error:
            raise TryLater(f"{self.field}: {error}; mend the source or name another") from error
