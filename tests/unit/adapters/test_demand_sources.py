"""From the spec to its demand source: the Secret, and which hosts may be opened. Addresses are literals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from fleetagent.adapters.demand.curio import CurioSource
from fleetagent.adapters.demand.http import HttpSource
from fleetagent.adapters.demand.prometheus import PrometheusSource
from fleetagent.adapters.demand.static import StaticSource
from fleetagent.adapters.reach import Reach
from fleetagent.bootstrap.worlds import Named, RealWorlds
from fleetagent.errors import BadResource, Denied, FleetAgentError, TryLater
from fleetagent.ports import DemandSource
from support.fakes import QuietCluster
from support.manifests import ABSENT, a_fleet_agent


@dataclass
class OneSecret(QuietCluster):
    values: dict[str, str] = field(default_factory=dict)

    async def secret(self, namespace: str, name: str, key: str) -> str:
        if key not in self.values:
            raise Denied("SecretKeyMissing", f"Secret {namespace}/{name} has no key {key!r}: add it")
        return self.values[key]


async def source(spec: Mapping[str, Any], *, allowed_hosts: tuple[str, ...] = (), **secret: str) -> DemandSource:
    """What stands behind spec.demand."""
    unused: Any = None
    worlds = RealWorlds(
        cluster=OneSecret(values=secret),
        markets=unused,
        http=httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(503))),
        model_http=unused,
        reach=Reach(allowed_hosts),
        metrics=unused,
        worker_url=None,
        now=unused,
    )
    return await worlds.demand(a_fleet_agent(spec={"demand": {"static": ABSENT, **spec}}))


def curio(key: str = "dsn") -> dict[str, Any]:
    return {"curio": {"dsnSecretRef": {"name": "curio-db", "key": key}}}


async def refusal(spec: Mapping[str, Any], **more: Any) -> BadResource:
    with pytest.raises(BadResource) as caught:
        await source(spec, **more)
    assert caught.value.condition == "DemandKnown"
    return caught.value


async def test_each_kind_of_demand_has_its_source() -> None:
    static = await source({"static": {"active": False}})
    asked = await source({"http": {"url": "http://10.0.0.7/now"}})
    measured = await source({"prometheus": {"url": "http://10.0.0.7:9090", "query": "sum(waiting)"}})
    read = await source(curio(), dsn="postgresql://u:p@10.0.0.7:5433/yugabyte")

    assert isinstance(static, StaticSource)
    assert isinstance(asked, Named)
    assert isinstance(asked.source, HttpSource)
    assert isinstance(measured, Named)
    assert isinstance(measured.source, PrometheusSource)
    assert isinstance(read, CurioSource)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:p@127.0.0.1:5433/yugabyte",
        "postgresql://u:p@localhost/yugabyte",
        "postgresql://u:p@[::1]/yugabyte",
        "postgresql://u:p@169.254.169.254/yugabyte",
        "postgresql://u:p@10.0.0.7/yugabyte?host=127.0.0.1",
        "postgresql://u:p@10.0.0.7,127.0.0.1/yugabyte",
        "postgresql://u:p@10.0.0.7/yugabyte?hostaddr=127.0.0.1",
        "host=10.0.0.7 hostaddr=::ffff:127.0.0.1 user=u",
    ],
)
async def test_a_dsn_opens_no_loopback_or_link_local_address_however_it_is_written(dsn: str) -> None:
    error = await refusal(curio(), dsn=dsn)

    assert error.reason == "HostNotAllowed"
    assert str(error).startswith("spec.demand.curio.dsnSecretRef: host ")


async def test_with_a_list_of_hosts_it_holds_for_the_dsn_too() -> None:
    dsn = "postgresql://u:p@db.svc:5433,other.svc:5433/yugabyte"

    assert await source(curio(), dsn=dsn, allowed_hosts=("db.svc:5433", "other.svc"))
    error = await refusal(curio(), dsn=dsn, allowed_hosts=("db.svc",))
    assert "'other.svc' is not in the installation's FLEETAGENT_ALLOWED_HOSTS" in str(error)
    error = await refusal(curio(), dsn=f"{dsn}?hostaddr=10.0.0.1,10.0.0.2", allowed_hosts=("db.svc", "other.svc"))
    assert error.reason == "HostNotAllowed"


@pytest.mark.parametrize("value", ["", " \n"])
async def test_an_empty_secret_is_said(value: str) -> None:
    assert (await refusal(curio(), dsn=value)).reason == "SecretEmpty"


async def test_a_secret_without_the_key_is_said_with_its_field() -> None:
    error = await refusal(curio("url"), dsn="postgresql://u:p@10.0.0.7/x")

    assert error.reason == "SecretKeyMissing"
    assert str(error).startswith("spec.demand.curio.dsnSecretRef: Secret default/curio-db has no key 'url'")


async def test_prometheus_is_no_way_inside_either() -> None:
    error = await refusal({"prometheus": {"url": "http://169.254.169.254", "query": "up"}})

    assert error.reason == "HostNotAllowed"
    assert str(error).startswith("spec.demand.prometheus.url: host ")


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"http": {"url": "http://10.0.0.7/now"}}, "spec.demand.http.url: "),
        ({"prometheus": {"url": "http://10.0.0.7:9090", "query": "up"}}, "spec.demand.prometheus.url: "),
    ],
)
async def test_a_source_that_fails_is_named_by_its_field_with_what_to_do(spec: dict[str, Any], where: str) -> None:
    failing = await source(spec)

    with pytest.raises(FleetAgentError) as caught:
        await failing.demand()

    assert isinstance(caught.value, TryLater)
    assert str(caught.value).startswith(where)
    assert str(caught.value).endswith("answered 503, not 200; mend the source or name another")
