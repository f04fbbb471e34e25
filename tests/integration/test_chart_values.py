"""What is written into the values reaches the objects as it was written, or is refused by its name."""

import json
from typing import Any

import pytest
import yaml

from fleetagent.settings import Settings
from support.helm import CHART, Helm, HelmError, Objects, environment, pod_spec, the
from support.manifests import merged
from support.profiles import EVERYTHING, PROFILES

RELEASE, NAMESPACE = "porep", "chart-home"

LOOK_ALIKES = ("0123", "1e3", "1000000", "0x1F", "1_000", "12:30", "1.0", "true", "no", "null", "~")
"""Strings that one YAML parser or another would take for something else."""


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


def as_the_operator_reads(objects: Objects) -> Settings:
    """Its settings; pydantic's error if the chart lets a value through that the operator refuses."""
    told = {name.removeprefix("FLEETAGENT_").lower(): value for name, value in environment(objects).items()}
    return Settings.model_validate({name: value for name, value in told.items() if value} | {"database_url": "any"})


@pytest.mark.parametrize("values", PROFILES.values(), ids=PROFILES.keys())
def test_the_operator_takes_what_every_profile_tells_it(helm: Helm, values: dict[str, Any]) -> None:
    settings = as_the_operator_reads(helm.rendered(RELEASE, NAMESPACE, values))

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


def with_text(text: str) -> dict[str, Any]:
    """The text wherever the chart takes any."""
    return {
        "image": {"tag": text},
        "database": {"existingSecret": text, "key": text},
        "cluster": text,
        "extraEnv": [{"name": "TEXT", "value": text}],
        "worker": {"service": {"annotations": {"a": text}}, "ingress": {"className": text, "annotations": {"a": text}}},
        "serviceAccount": {"name": text, "annotations": {"a": text}},
        "podAnnotations": {"a": text},
        "podLabels": {"a": text},
        "nodeSelector": {"a": text},
        "priorityClassName": text,
    }


def as_told(objects: Objects) -> dict[str, Any]:
    """The texts of `with_text`, from the objects."""
    pod, spec = the(objects, "Deployment")["spec"]["template"], pod_spec(objects)
    service = the(objects, "Service", "porep-fleetagent-worker")
    env = {each["name"]: each for each in spec["containers"][0]["env"]}
    secret = env["FLEETAGENT_DATABASE_URL"]["valueFrom"]["secretKeyRef"]
    ingress = the(objects, "Ingress")
    return {
        "tag": spec["containers"][0]["image"].partition(":")[2],
        "secret": secret["name"],
        "key": secret["key"],
        "cluster": env["FLEETAGENT_CLUSTER"]["value"],
        "env": env["TEXT"]["value"],
        "service": service["metadata"]["annotations"]["a"],
        "class": ingress["spec"]["ingressClassName"],
        "ingress": ingress["metadata"]["annotations"]["a"],
        "account": spec["serviceAccountName"],
        "account's annotation": the(objects, "ServiceAccount")["metadata"]["annotations"]["a"],
        "binding": the(objects, "ClusterRoleBinding")["subjects"][0]["name"],
        "annotation": pod["metadata"]["annotations"]["a"],
        "label": pod["metadata"]["labels"]["a"],
        "node": spec["nodeSelector"]["a"],
        "priority": spec["priorityClassName"],
    }


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_string_that_looks_like_something_else_stays_as_written_in_a_values_file(helm: Helm, text: str) -> None:
    values = with_text(text)
    values["worker"]["ingress"] |= {"enabled": True, "hosts": ["workers.example"]}

    told = as_told(helm.rendered(RELEASE, NAMESPACE, values))

    assert told == dict.fromkeys(told, text)


def flags(values: dict[str, Any], path: str = "") -> list[str]:
    """The values one by one, as they are written behind --set-string."""
    written = []
    for key, value in values.items():
        if isinstance(value, dict):
            written += flags(value, f"{path}{key}.")
        elif isinstance(value, list):
            for number, each in enumerate(value):
                written += flags(each, f"{path}{key}[{number}].")
        else:
            written.append(f"{path}{key}={value}")
    return written


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_string_that_looks_like_something_else_stays_as_written_by_set_string(helm: Helm, text: str) -> None:
    given = [flag for each in flags(with_text(text)) for flag in ("--set-string", each)]
    enabled = ["--set", "worker.ingress.enabled=true", "--set", "worker.ingress.hosts={workers.example}"]

    told = as_told(helm.rendered(RELEASE, NAMESPACE, {}, *given, *enabled))

    assert told == dict.fromkeys(told, text)


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("image.tag=1000000", "tag"),
        ("cluster=true", "cluster"),
        ("cluster=12", "cluster"),
        ("podLabels.a=7", "podLabels"),
        ("nodeSelector.a=true", "nodeSelector"),
        ("extraEnv[0].name=A,extraEnv[0].value=1", "extraEnv"),
    ],
)
def test_a_number_where_a_string_belongs_is_refused_and_never_guessed(helm: Helm, flag: str, names: str) -> None:
    with pytest.raises(HelmError, match=names):
        helm.rendered(RELEASE, NAMESPACE, {}, "--set", flag)


NUMBERS: dict[str, tuple[Any, ...]] = {
    "replicas": (1, 10),
    "leaseSeconds": (5, 300),
    "silentSeconds": (4, 3600),
    "beatSeconds": (0.2, 0.5, 10, 300),
    "lookSeconds": (0.2, 3600),
    "settlingSeconds": (1, 3600),
    "confirmGoneSeconds": (0, 0.25, 3600),
    "databasePool": (2, 200),
    "web.port": (1024, 65535),
    "health.port": (1024, 65535),
    "worker.port": (1024, 65535),
    "worker.service.port": (1, 65535),
    "podSecurityContext.runAsUser": (1, 1000000, 1000650000, 2147483647),
    "podSecurityContext.runAsGroup": (1000000, 2147483647),
    "podSecurityContext.fsGroup": (1000000, 2147483647),
    "terminationGracePeriodSeconds": (0, 86400),
}


def number_in(objects: Objects, path: str) -> Any:
    """Where this value ends up."""
    spec, env = pod_spec(objects), environment(objects)
    ports = {each["name"]: each["containerPort"] for each in spec["containers"][0]["ports"]}
    match path.split("."):
        case ["replicas"]:
            return the(objects, "Deployment")["spec"]["replicas"]
        case [part, "port"]:
            assert env[f"FLEETAGENT_{part.upper()}_LISTEN"] == f"0.0.0.0:{ports[part]}"
            return ports[part]
        case ["worker", "service", "port"]:
            return the(objects, "Service", "porep-fleetagent-worker")["spec"]["ports"][0]["port"]
        case ["podSecurityContext", field]:
            return spec["securityContext"][field]
        case ["terminationGracePeriodSeconds"]:
            return spec["terminationGracePeriodSeconds"]
        case [name]:
            words = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name)
            return json.loads(env[f"FLEETAGENT_{words}"])
    raise AssertionError(path)


def nested(path: str, value: Any) -> dict[str, Any]:
    """`a.b` as a mapping in a mapping."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


@pytest.mark.parametrize("column", range(max(map(len, NUMBERS.values()))))
def test_a_number_stays_as_written_in_a_values_file_and_by_flag(helm: Helm, column: int) -> None:
    given = {path: numbers[min(column, len(numbers) - 1)] for path, numbers in NUMBERS.items()}
    values: dict[str, Any] = {}
    for path, number in given.items():
        values = merged(values, nested(path, number))

    by_file = helm.rendered(RELEASE, NAMESPACE, values)
    by_flag = helm.rendered(RELEASE, NAMESPACE, {}, *(f"--set-json={path}={given[path]}" for path in given))

    assert {path: number_in(by_file, path) for path in given} == given
    assert {path: number_in(by_flag, path) for path in given} == given
    assert as_the_operator_reads(by_file).worker_listen == f"0.0.0.0:{given['worker.port']}"


def test_the_table_of_numbers_knows_every_number_of_the_values() -> None:
    def numbers(values: dict[str, Any], path: str = "") -> set[str]:
        inside = (numbers(value, f"{path}{key}.") for key, value in values.items() if isinstance(value, dict))
        own = {f"{path}{key}" for key, value in values.items() if type(value) in {int, float}}
        return own.union(*inside)

    assert numbers(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))) == NUMBERS.keys()


@pytest.mark.parametrize("release", ["0123", "1e3"])
def test_a_release_and_namespaces_with_names_like_numbers_stay_strings(helm: Helm, release: str) -> None:
    objects = helm.rendered(release, "456", {"namespaces": ["789", "1e3"], "fullnameOverride": "0123"}, hooks=True)

    for each in objects:
        metadata = each["metadata"]
        assert {type(value) for value in (metadata["name"], *metadata["labels"].values())} == {str}
        assert type(metadata.get("namespace", "")) is str
    assert environment(objects)["FLEETAGENT_NAMESPACES"] == "1e3,789"
    assert the(objects, "Deployment")["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] == release


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
