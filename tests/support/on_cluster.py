"""What a release has left on a cluster: definitions, agents, and whatever else kubectl shows."""

import json
import secrets
from typing import Any

from fleetagent.dev.controlplane import ControlPlane
from support.helm import CHART
from support.manifests import a_manifest

DEFINITION = "fleetagents.fleetagent.dev"


def a_namespace(cluster: ControlPlane) -> str:
    """Lets in only what keeps to PodSecurity `restricted`."""
    name = f"home-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    return name


def get(cluster: ControlPlane, *what: str) -> dict[str, Any]:
    """What `kubectl get` shows."""
    found: dict[str, Any] = json.loads(cluster.kubectl("get", *what, "--output=json"))
    return found


def definitions(cluster: ControlPlane) -> set[str]:
    """The names of all CustomResourceDefinitions."""
    return {each["metadata"]["name"] for each in get(cluster, "customresourcedefinitions")["items"]}


def installed(cluster: ControlPlane) -> dict[str, Any]:
    """The schema of the installed definition."""
    version = get(cluster, "customresourcedefinition", DEFINITION)["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def described(cluster: ControlPlane) -> str:
    """How the installed definition describes the target: the text in which the old one of these tests differs."""
    schema = installed(cluster)
    return str(schema["properties"]["spec"]["properties"]["target"]["description"])


def an_old_definition() -> str:
    """Ours, as an older version might have had it."""
    generated = (CHART / "files" / "fleetagents.yaml").read_text(encoding="utf-8")
    assert "description: The proving rate to keep." in generated
    return generated.replace("description: The proving rate to keep.", "description: Of old.")


def an_agent(cluster: ControlPlane, namespace: str) -> None:
    """Apply a FleetAgent."""
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(a_manifest(namespace=namespace)))


def agents(cluster: ControlPlane, namespace: str) -> list[str]:
    """The names of the FleetAgents."""
    return [each["metadata"]["name"] for each in get(cluster, "fleetagents", "--namespace", namespace)["items"]]
