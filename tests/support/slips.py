"""What people get wrong in a FleetAgent that no API server can see, how it shows, and how it is mended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from support.manifests import ABSENT, Json
from support.servers import MARKET_KEY
from support.stage import Stage

NOWHERE = "http://127.0.0.1:1"


def vast(**changes: Any) -> Json:
    """Changes of spec.fleet.vast."""
    return {"fleet": {"vast": changes}}


@dataclass(frozen=True)
class Slip:
    """What is wrong with one agent, how that shows, and how it is mended: by a Secret's values or by another spec."""

    name: str
    spec: Callable[[Stage], Json]
    condition: str
    reason: str
    words: tuple[str, ...]
    secret: Mapping[str, str] | None = None
    mended_secret: Mapping[str, str] | None = None
    mended_spec: Callable[[Stage], Json] | None = None


def a_secret(stage: Stage, name: str, values: Mapping[str, str]) -> None:
    """Make the Secret, or give it these values."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": dict(values)}
    path = f"/api/v1/namespaces/{stage.namespace}/secrets"
    if stage.cluster.api.exists(f"{path}/{name}"):
        stage.cluster.api.call("PUT", f"{path}/{name}", body)
    else:
        stage.cluster.api.call("POST", path, body)


def key_in(secret: str) -> Callable[[Stage], Json]:
    """The market's key in this Secret."""
    return lambda _: vast(apiKeySecretRef={"name": secret, "key": "api-key"})


KEY = {"api-key": MARKET_KEY}
SLIPS = (
    Slip(
        "market-secret-missing",
        key_in("market-secret-missing"),
        "FleetKnown",
        "SecretMissing",
        ("spec.fleet.vast.apiKeySecretRef: Secret ", "/market-secret-missing does not exist: create it"),
        mended_secret=KEY,
    ),
    Slip(
        "market-key-missing",
        key_in("market-key-missing"),
        "FleetKnown",
        "SecretKeyMissing",
        ("spec.fleet.vast.apiKeySecretRef: Secret ", "has no key 'api-key': add it"),
        secret={"token": MARKET_KEY},
        mended_secret=KEY,
    ),
    Slip(
        "market-key-wrong",
        key_in("market-key-wrong"),
        "FleetKnown",
        "MarketKeyRefused",
        ("refuses the API key", "the Secret of spec.fleet.vast.apiKeySecretRef"),
        secret={"api-key": "not-the-key"},
        mended_secret=KEY,
    ),
    Slip(
        "market-url-wrong",
        lambda stage: vast(baseURL=f"{stage.market.base_url}/nowhere"),
        "FleetKnown",
        "FleetUnknown",
        ("spec.fleet.vast.baseURL", "404"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "market-host-forbidden",
        lambda _: vast(baseURL="http://169.254.169.254"),
        "FleetKnown",
        "HostNotAllowed",
        ("spec.fleet.vast.baseURL: host '169.254.169.254'", "FLEETAGENT_ALLOWED_HOSTS"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "environment-missing",
        lambda _: vast(instance={"envFromSecretRef": {"name": "environment-missing"}}),
        "CanLaunch",
        "SecretMissing",
        ("spec.fleet.vast.instance.envFromSecretRef: Secret ", "does not exist: create it"),
        mended_secret={"PROOF": "1"},
    ),
    Slip(
        "model-secret-missing",
        lambda _: {"model": {"apiKeySecretRef": {"name": "model-secret-missing", "key": "api-key"}}},
        "ModelAvailable",
        "SecretMissing",
        ("spec.model.apiKeySecretRef: Secret ", "does not exist: create it"),
        mended_secret={"api-key": "any"},
    ),
    Slip(
        "model-unreachable",
        lambda _: {"model": {"baseURL": f"{NOWHERE}/v1", "timeout": "1s"}},
        "ModelAvailable",
        "Unavailable",
        ("see that http://127.0.0.1:1/v1 is up", "spec.model.timeout"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "model-name-wrong",
        lambda _: {"model": {"name": "no-such-model"}},
        "ModelAvailable",
        "ModelNotFound",
        ("no model no-such-model; it offers qwen3.5-122b", "set spec.model.name"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "model-url-wrong",
        lambda stage: {"model": {"baseURL": f"{stage.model.url}/nowhere"}},
        "ModelAvailable",
        "BadURL",
        ("correct spec.model.baseURL",),
        mended_spec=lambda _: {},
    ),
    Slip(
        "demand-unreachable",
        lambda _: {"demand": {"static": ABSENT, "http": {"url": f"{NOWHERE}/demand"}}},
        "DemandKnown",
        "DemandUnknown",
        ("spec.demand.http.url: the demand source does not answer", "mend the source"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "demand-makes-no-sense",
        lambda stage: {"demand": {"static": ABSENT, "http": {"url": f"{stage.model.url}/models"}}},
        "DemandKnown",
        "DemandUnknown",
        ("spec.demand.http.url: the demand source's `active` is neither true nor false",),
        mended_spec=lambda _: {},
    ),
    Slip(
        "demand-secret-missing",
        lambda _: {"demand": {"static": ABSENT, "curio": {"dsnSecretRef": {"name": "curio", "key": "dsn"}}}},
        "DemandKnown",
        "SecretMissing",
        ("spec.demand.curio.dsnSecretRef: Secret ", "/curio does not exist: create it"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "demand-dsn-wrong",
        lambda _: {"demand": {"static": ABSENT, "curio": {"dsnSecretRef": {"name": "demand-dsn-wrong", "key": "dsn"}}}},
        "DemandKnown",
        "BadDSN",
        ("spec.demand.curio.dsnSecretRef: ", "is no connection string", "postgresql://reader:password@host"),
        secret={"dsn": "curio.svc"},
        mended_spec=lambda _: {},
    ),
    Slip(
        "demand-url-wrong",
        lambda stage: {
            "demand": {"static": ABSENT, "prometheus": {"url": f"{stage.model.url}/nowhere", "query": "up"}}
        },
        "DemandKnown",
        "DemandUnknown",
        ("spec.demand.prometheus.url: Prometheus answered 404", "mend the source"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "cron-impossible",
        lambda _: {"schedule": {"interval": ABSENT, "cron": "0 0 31 2 *"}},
        "Ready",
        "InvalidSchedule",
        ("spec.schedule.cron: '0 0 31 2 *' never comes", "correct it"),
        mended_spec=lambda _: {},
    ),
    Slip(
        "pager-secret-missing",
        lambda _: {"alerts": {"notifySecretRef": {"name": "pager-secret-missing", "key": "urls"}}},
        "AlertsDelivered",
        "SecretMissing",
        ("spec.alerts.notifySecretRef: Secret ", "/pager-secret-missing does not exist: create it"),
        mended_secret={"urls": "json://127.0.0.1:9/hook"},
    ),
)
IDLE = {"target": {"proofsPerHour": 0}}
