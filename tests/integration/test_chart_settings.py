"""The chart tells the operator what its settings take, and refuses wrong values by their names."""

import json
from typing import Any

import pytest
import yaml

from fleetagent.settings import Settings
from support.helm import CHART, Helm, HelmError, environment, settings_of
from support.profiles import EVERYTHING, PROFILES

RELEASE, NAMESPACE = "porep", "chart-home"


@pytest.fixture(scope="module")
def helm() -> Helm:
    return Helm()


def test_every_setting_reaches_the_operator(helm: Helm) -> None:
    settings = environment(helm.rendered(RELEASE, NAMESPACE, EVERYTHING))

    assert settings == {
        "FLEETAGENT_DATABASE_URL": "",  # from the Secret
        "FLEETAGENT_NAMESPACES": "",
        "FLEETAGENT_CLUSTER": "prod-1",
        "FLEETAGENT_PEERING": "ours",
        "FLEETAGENT_ALLOWED_HOSTS": "console.vast.ai,vllm.llm.svc:8000",
        "FLEETAGENT_WEB_LISTEN": "[::]:9080",
        "FLEETAGENT_WEB_URL": "https://fleetagent.example",
        "FLEETAGENT_HEALTH_LISTEN": "[::]:9081",
        "FLEETAGENT_WORKER_LISTEN": "[::]:9082",
        "FLEETAGENT_WORKER_URL": "https://workers.example",
        "FLEETAGENT_LOG_FORMAT": "text",
        "FLEETAGENT_LEASE_SECONDS": "30",
        "FLEETAGENT_SILENT_SECONDS": "300",
        "FLEETAGENT_BEAT_SECONDS": "2.5",
        "FLEETAGENT_LOOK_SECONDS": "60",
        "FLEETAGENT_SETTLING_SECONDS": "600",
        "FLEETAGENT_CONFIRM_GONE_SECONDS": "90",
        "FLEETAGENT_DATABASE_POOL": "25",
        "HTTPS_PROXY": "http://proxy:3128",
    }


@pytest.mark.parametrize("values", PROFILES.values(), ids=PROFILES.keys())
def test_the_operator_takes_what_every_profile_tells_it(helm: Helm, values: dict[str, Any]) -> None:
    settings = settings_of(helm.rendered(RELEASE, NAMESPACE, values))

    assert settings.peering == (values.get("peering", "fleetagent") or None)


def test_the_defaults_are_what_the_operator_would_assume_by_itself(helm: Helm) -> None:
    told = environment(helm.rendered(RELEASE, NAMESPACE))
    named = {f"FLEETAGENT_{name.upper()}": field.default for name, field in Settings.model_fields.items()}
    of_the_installation = {
        "FLEETAGENT_DATABASE_URL",
        "FLEETAGENT_PEERING",
        "FLEETAGENT_WEB_LISTEN",
        "FLEETAGENT_HEALTH_LISTEN",
        "FLEETAGENT_WORKER_LISTEN",
        "FLEETAGENT_LOG_FORMAT",
    }

    assert told.keys() <= named.keys()
    for name in told.keys() - of_the_installation:
        default = named[name]
        assert told[name] == ("" if default in {(), None} else str(default)), name


def test_every_value_has_a_schema_that_takes_its_default_and_nothing_unknown(helm: Helm) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    def follow(part: dict[str, Any], value: Any, path: str) -> None:
        if part.get("type") == "object" and "properties" in part:
            assert part["additionalProperties"] is False, path
            assert set(part.get("required", ())) <= part["properties"].keys(), path
            assert value.keys() <= part["properties"].keys(), path
            for key in value:
                follow(part["properties"][key], value[key], f"{path}.{key}")

    follow(schema, values, "values")
    assert schema["properties"].keys() == {"global", *values}
    assert set(schema["required"]) == values.keys()  # else a value that is missing would be taken for 0 or false
    helm.rendered(RELEASE, NAMESPACE, {"global": {"of": "a parent chart"}})


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"leaseSeconds": 0}, "leaseSeconds"),
        ({"leaseSeconds": "15s"}, "leaseSeconds"),
        ({"leaseSeconds": "15"}, "leaseSeconds"),
        ({"replicas": 0}, "replicas"),
        ({"replicas": 2.5}, "replicas"),
        ({"replicas": 2, "peering": ""}, "replicas above 1 need `peering`"),
        ({"peering": "Upper"}, "peering"),
        ({"web": {"port": 80}}, "web"),
        ({"web": {"service": {"type": "NodePort"}}}, "web"),
        ({"worker": {"url": "workers.example"}}, "url"),
        ({"web": {"url": "fleetagent.example"}}, "url"),
        ({"web": {"ingress": {"enabled": True}}}, "web.ingress.hosts"),
        ({"web": {"ingress": {"enabled": True, "hosts": ["fleetagent.example"]}}}, "web.url"),
        ({"worker": {"service": {"type": "ExternalName"}}}, "type"),
        ({"worker": {"ingress": {"enabled": True}}}, "hosts"),
        ({"worker": {"ingress": {"hosts": ["https://workers.example"]}}}, "hosts"),
        ({"namespaces": ["team-*"]}, "namespaces"),
        ({"namespaces": "a,b"}, "namespaces"),
        ({"allowedHosts": ["a,b"]}, "allowedHosts"),
        ({"rbac": {"clusterWide": "yes"}}, "clusterWide"),
        ({"crds": {"install": "false"}}, "install"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"database": {"existingSecret": ""}}, "existingSecret"),
        ({"databse": {"existingSecret": "a"}}, "databse"),
        ({"strategy": {"type": "Recreate"}}, "strategy"),
        ({"podSecurityContext": {"runAsUser": 0}}, "runAsUser"),
        ({"podSecurityContext": {"runAsNonRoot": False}}, "runAsNonRoot"),
        ({"extraEnv": [{"name": "FLEETAGENT_CLUSTER", "value": "b"}]}, "FLEETAGENT_CLUSTER is there already"),
        ({"extraEnv": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "A is there already"),
    ],
    ids=json.dumps,
)
def test_a_wrong_value_is_refused_by_its_name(helm: Helm, values: dict[str, Any], names: str) -> None:
    with pytest.raises(HelmError, match=names):
        helm.rendered(RELEASE, NAMESPACE, values)
