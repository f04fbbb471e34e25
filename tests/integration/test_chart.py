"""The chart, rendered by Helm itself and judged by a real API server."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.helm import find_helm
from fleetagent.dev.rbac import operator_objects

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "fleetagent"
RELEASE, NAMESPACE = "porep", "chart-home"
FULL_NAME = "porep-fleetagent"
WATCHED = ("chart-a", "chart-b")
RBAC_KINDS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}

PROFILES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "its own namespace only": {"rbac": {"clusterWide": False}},
    "two other namespaces": {"namespaces": list(WATCHED)},
    "everything is there already": {
        "crds": {"install": False},
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "theirs"},
        "fullnameOverride": "theirs",
    },
    "everything set": {
        "image": {
            "repository": "registry.example/team/fleetagent",
            "digest": f"sha256:{'0' * 64}",
            "pullPolicy": "Always",
        },
        "imagePullSecrets": [{"name": "pull"}],
        "nameOverride": "agents",
        "database": {"existingSecret": "postgres-app", "key": "uri"},
        "cluster": "prod-1",
        "allowedHosts": ["console.vast.ai", "vllm.llm.svc:8000"],
        "listenHost": "[::]",
        "web": {"port": 9080},
        "health": {"port": 9081},
        "worker": {
            "port": 9082,
            "url": "https://workers.example",
            "service": {"type": "LoadBalancer", "port": 443, "annotations": {"example.com/a": "b"}},
        },
        "logFormat": "text",
        "leaseSeconds": 30,
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "serviceAccount": {"name": "fleet", "annotations": {"example.com/role": "fleet"}},
        "resources": {"limits": {"cpu": "1", "memory": "2Gi"}},
        "podAnnotations": {"example.com/scrape": "true"},
        "podLabels": {"team": "proofs"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 60,
    },
}

Objects = list[dict[str, Any]]


@pytest.fixture(scope="module")
def helm() -> Path:
    return find_helm()


@pytest.fixture(scope="module")
def namespaces(control_plane: ControlPlane) -> Iterator[None]:
    """Where the release lives under the strictest pod security, and two namespaces that it may watch."""
    for name in (NAMESPACE, *WATCHED):
        control_plane.kubectl("create", "namespace", name)
    control_plane.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    yield
    control_plane.kubectl("delete", "namespace", NAMESPACE, *WATCHED, "--wait=false")


def rendered(helm: Path, values: Mapping[str, Any]) -> Objects:
    done = subprocess.run(
        [helm, "template", RELEASE, CHART, "--namespace", NAMESPACE, "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def the(objects: Objects, kind: str) -> dict[str, Any]:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def operator_container(objects: Objects) -> dict[str, Any]:
    (container,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def environment(objects: Objects) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in operator_container(objects)["env"]}


def rights(objects: Objects) -> Objects:
    """The account and its roles, without what Helm adds to each object."""
    found = [json.loads(json.dumps(each)) for each in objects if each["kind"] in RBAC_KINDS]
    for each in found:
        each["metadata"].pop("labels", None)
    return sorted(
        found, key=lambda each: (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
    )


def as_list(objects: Objects) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def test_helm_has_nothing_to_say_against_the_chart(helm: Path) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", PROFILES.values(), ids=PROFILES.keys())
@pytest.mark.usefixtures("namespaces")
def test_the_api_server_takes_every_object_as_it_is_rendered(
    helm: Path, control_plane: ControlPlane, values: dict[str, Any]
) -> None:
    objects = rendered(helm, values)

    answer = control_plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-", stdin=as_list(objects)
    )

    assert len(answer.splitlines()) == len(objects)


@pytest.mark.parametrize("values", PROFILES.values(), ids=PROFILES.keys())
@pytest.mark.usefixtures("namespaces")
def test_the_pod_is_let_in_under_the_strictest_pod_security(
    helm: Path, control_plane: ControlPlane, values: dict[str, Any]
) -> None:
    template = the(rendered(helm, values), "Deployment")["spec"]["template"]
    template["spec"]["serviceAccountName"] = "default"  # the release's own is only rendered, not there
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "probe", "namespace": NAMESPACE}}

    control_plane.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(pod))


@pytest.mark.parametrize(
    ("values", "watched"),
    [({}, ()), ({"rbac": {"clusterWide": False}}, (NAMESPACE,)), ({"namespaces": list(WATCHED)}, WATCHED)],
    ids=["whole cluster", "own namespace", "two namespaces"],
)
def test_the_chart_grants_what_the_operator_has_in_dev_and_tests(
    helm: Path, values: dict[str, Any], watched: tuple[str, ...]
) -> None:
    assert rights(rendered(helm, values)) == rights(operator_objects(NAMESPACE, FULL_NAME, watched))


@pytest.mark.parametrize(
    ("values", "expected"),
    [({}, ""), ({"rbac": {"clusterWide": False}}, NAMESPACE), ({"namespaces": ["b", "a"]}, "a,b")],
    ids=["whole cluster", "own namespace", "two namespaces"],
)
def test_the_operator_watches_the_namespaces_in_which_it_has_rights(
    helm: Path, values: dict[str, Any], expected: str
) -> None:
    assert environment(rendered(helm, values))["FLEETAGENT_NAMESPACES"] == expected


def test_every_setting_reaches_the_operator(helm: Path) -> None:
    settings = environment(rendered(helm, PROFILES["everything set"]))

    assert settings == {
        "FLEETAGENT_DATABASE_URL": "",  # from the Secret
        "FLEETAGENT_NAMESPACES": "",
        "FLEETAGENT_CLUSTER": "prod-1",
        "FLEETAGENT_ALLOWED_HOSTS": "console.vast.ai,vllm.llm.svc:8000",
        "FLEETAGENT_WEB_LISTEN": "[::]:9080",
        "FLEETAGENT_HEALTH_LISTEN": "[::]:9081",
        "FLEETAGENT_WORKER_LISTEN": "[::]:9082",
        "FLEETAGENT_WORKER_URL": "https://workers.example",
        "FLEETAGENT_LOG_FORMAT": "text",
        "FLEETAGENT_LEASE_SECONDS": "30",
        "HTTPS_PROXY": "http://proxy:3128",
    }


def test_the_database_url_comes_from_the_named_secret_in_both_containers(helm: Path) -> None:
    pod = the(rendered(helm, PROFILES["everything set"]), "Deployment")["spec"]["template"]["spec"]

    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["env"][0] == {
            "name": "FLEETAGENT_DATABASE_URL",
            "valueFrom": {"secretKeyRef": {"name": "postgres-app", "key": "uri"}},
        }


def test_the_only_service_leads_to_where_workers_report(helm: Path) -> None:
    objects = rendered(helm, PROFILES["everything set"])
    ports = {each["name"]: each["containerPort"] for each in operator_container(objects)["ports"]}

    leads_to = {
        service["metadata"]["name"]: ports[service["spec"]["ports"][0]["targetPort"]]
        for service in objects
        if service["kind"] == "Service"
    }

    assert leads_to == {"porep-agents-worker": 9082}


def test_the_definition_is_the_generated_one_and_outlives_the_release(helm: Path) -> None:
    definition = the(rendered(helm, {}), "CustomResourceDefinition")
    generated = yaml.safe_load((CHART / "files" / "fleetagents.yaml").read_text(encoding="utf-8"))

    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert definition["spec"] == generated["spec"]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"leaseSeconds": 0}, "leaseSeconds"),
        ({"leaseSeconds": "15s"}, "leaseSeconds"),
        ({"web": {"port": 80}}, "web"),
        ({"web": {"service": {"type": "NodePort"}}}, "web"),
        ({"worker": {"url": "workers.example"}}, "url"),
        ({"worker": {"service": {"type": "ExternalName"}}}, "type"),
        ({"namespaces": ["team-*"]}, "namespaces"),
        ({"namespaces": "a,b"}, "namespaces"),
        ({"allowedHosts": ["a,b"]}, "allowedHosts"),
        ({"rbac": {"clusterWide": "yes"}}, "clusterWide"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"database": {"existingSecret": ""}}, "existingSecret"),
        ({"databse": {"existingSecret": "a"}}, "databse"),
    ],
    ids=json.dumps,
)
def test_a_wrong_value_is_refused_by_its_name(helm: Path, values: dict[str, Any], names: str) -> None:
    with pytest.raises(AssertionError, match=names):
        rendered(helm, values)


@pytest.mark.usefixtures("namespaces")
def test_the_operator_may_do_what_it_needs_and_nothing_else(control_plane: ControlPlane) -> None:
    objects = operator_objects(NAMESPACE, "narrow", [WATCHED[0]])
    control_plane.kubectl("apply", "--filename=-", stdin=as_list(objects))
    user = f"system:serviceaccount:{NAMESPACE}:narrow"

    def may(verb: str, resource: str, *, group: str = "", namespace: str = WATCHED[0], **more: str) -> bool:
        asked = {"verb": verb, "resource": resource, "group": group, "namespace": namespace, **more}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": asked},
        }
        answer = control_plane.kubectl("create", "--filename=-", "--output=json", stdin=json.dumps(review))
        return bool(json.loads(answer)["status"]["allowed"])

    assert may("watch", "fleetagents", group="fleetagent.dev")
    assert may("patch", "fleetagents", group="fleetagent.dev", subresource="status")
    assert may("create", "events")
    assert may("get", "secrets", name="vast")
    assert may("get", "configmaps", name="fleetagent-stop", namespace=NAMESPACE)

    assert not may("patch", "events")
    assert not may("get", "fleetagents", group="fleetagent.dev", subresource="status")
    assert not may("list", "secrets")
    assert not may("get", "secrets", name="vast", namespace=WATCHED[1])
    assert not may("watch", "fleetagents", group="fleetagent.dev", namespace=WATCHED[1])
    assert not may("get", "configmaps", name="other", namespace=NAMESPACE)
    assert not may("create", "pods")
    assert not may("delete", "fleetagents", group="fleetagent.dev")
