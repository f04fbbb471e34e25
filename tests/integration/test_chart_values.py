"""What is written into the values reaches the objects as it was written: numbers, and strings that look like some."""

import json
import re
from typing import Any

import pytest
import yaml

from support.helm import CHART, Helm, HelmError, Objects, environment, pod_spec, settings_of, the
from support.manifests import merged

RELEASE, NAMESPACE = "porep", "chart-home"

LOOK_ALIKES = ("0123", "1e3", "1000000", "0x1F", "1_000", "12:30", "1.0", "true", "no", "null", "~")
"""Strings that one YAML parser or another would take for something else."""


@pytest.fixture(scope="module")
def helm() -> Helm:
    return Helm()


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
    assert settings_of(by_file).worker_listen == f"0.0.0.0:{given['worker.port']}"


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
    ("release", "values"),
    [("team.porep", {}), ("fleetagent.eu", {}), ("a" * 53, {}), ("porep", {"nameOverride": "n" * 63})],
    ids=["dots", "dots, and the chart's name", "a long release", "a long name"],
)
def test_whatever_a_release_is_called_the_api_server_takes_the_names_and_labels(
    helm: Helm, release: str, values: dict[str, Any]
) -> None:
    objects = helm.rendered(release, NAMESPACE, values, hooks=True)

    for each in objects:
        if each["kind"] == "Service":
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", each["metadata"]["name"])
        assert all(len(label) <= 63 for label in each["metadata"]["labels"].values())
    (test,) = [each for each in objects if each["kind"] == "Pod"]
    assert test["metadata"]["labels"]["app.kubernetes.io/name"].endswith("-test")
