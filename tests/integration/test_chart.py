"""The chart, rendered by Helm itself and judged by a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.rbac import operator_objects, peering_definitions, peering_objects
from support import people
from support.helm import CHART, Helm, Objects, as_list, environment, pod_spec, the
from support.profiles import EVERYTHING, PROFILES, WATCHED

RELEASE, NAMESPACE = "porep", "chart-home"
FULL_NAME, PEERING = "porep-fleetagent", "fleetagent"
RBAC_KINDS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
PEERING_KINDS = {"ClusterKopfPeering", "KopfPeering"}
COMPONENT = "app.kubernetes.io/component"


@pytest.fixture(scope="module")
def helm() -> Helm:
    return Helm()


@pytest.fixture(scope="module")
def namespaces(control_plane: ControlPlane) -> Iterator[None]:
    """Where the release lives under the strictest pod security, two namespaces that it may watch, and kopf's kinds."""
    control_plane.kubectl("apply", "--server-side", "--filename", str(CHART / "crds"))
    control_plane.kubectl("wait", "--for=condition=Established", "--filename", str(CHART / "crds"))
    for name in (NAMESPACE, *WATCHED):
        control_plane.kubectl("create", "namespace", name)
    control_plane.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    yield
    control_plane.kubectl("delete", "namespace", NAMESPACE, *WATCHED, "--wait=false")


def rendered(helm: Helm, values: dict[str, Any], *, hooks: bool = False) -> Objects:
    return helm.rendered(RELEASE, NAMESPACE, values, hooks=hooks)


def bare(objects: Objects, kinds: set[str]) -> Objects:
    """Those of these kinds that are the operator's own, without what Helm adds to each object."""
    own = [each for each in objects if each["metadata"].get("labels", {}).get(COMPONENT) != "people"]
    found = [json.loads(json.dumps(each)) for each in own if each["kind"] in kinds]
    for each in found:
        each["metadata"].pop("labels", None)
    return sorted(
        found, key=lambda each: (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
    )


def test_helm_has_nothing_to_say_against_the_chart(helm: Helm) -> None:
    helm.run("lint", "--strict", CHART)


@pytest.mark.parametrize("values", PROFILES.values(), ids=PROFILES.keys())
@pytest.mark.usefixtures("namespaces")
def test_the_api_server_takes_every_object_as_it_is_rendered(
    helm: Helm, control_plane: ControlPlane, values: dict[str, Any]
) -> None:
    objects = rendered(helm, values)

    answer = control_plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-", stdin=as_list(objects)
    )

    assert len(answer.splitlines()) == len(objects)


@pytest.mark.parametrize("values", PROFILES.values(), ids=PROFILES.keys())
@pytest.mark.usefixtures("namespaces")
def test_the_operators_pod_and_the_tests_are_let_in_under_the_strictest_pod_security(
    helm: Helm, control_plane: ControlPlane, values: dict[str, Any]
) -> None:
    objects = rendered(helm, values, hooks=True)

    for spec in (pod_spec(objects), the(objects, "Pod")["spec"]):
        spec["serviceAccountName"] = "default"  # the release's own is only rendered, not there
        metadata = {"name": "probe", "namespace": NAMESPACE}
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": metadata}
        control_plane.kubectl("create", "--dry-run=server", "--validate=strict", "--filename=-", stdin=json.dumps(pod))


@pytest.mark.parametrize(
    ("values", "watched", "peering"),
    [
        ({}, (), PEERING),
        ({"rbac": {"clusterWide": False}}, (NAMESPACE,), PEERING),
        ({"namespaces": list(WATCHED), "peering": "ours"}, WATCHED, "ours"),
        ({"replicas": 1, "peering": ""}, (), None),
    ],
    ids=["whole cluster", "own namespace", "two namespaces", "no peering"],
)
def test_the_chart_grants_what_the_operator_has_in_dev_and_tests(
    helm: Helm, values: dict[str, Any], watched: tuple[str, ...], peering: str | None
) -> None:
    objects = rendered(helm, values)

    assert bare(objects, RBAC_KINDS) == bare(operator_objects(NAMESPACE, FULL_NAME, watched, peering), RBAC_KINDS)
    agreed = peering_objects(peering, watched) if peering else []
    assert bare(objects, PEERING_KINDS) == bare(agreed, PEERING_KINDS)


def test_the_kinds_of_the_peering_objects_come_with_the_chart(helm: Helm) -> None:
    kinds = {each["spec"]["names"]["kind"] for each in yaml.safe_load_all(helm.run("show", "crds", CHART)) if each}

    assert kinds == PEERING_KINDS == {each["spec"]["names"]["kind"] for each in peering_definitions()}


@pytest.mark.parametrize(
    ("values", "expected"),
    [({}, ""), ({"rbac": {"clusterWide": False}}, NAMESPACE), ({"namespaces": ["b", "a"]}, "a,b")],
    ids=["whole cluster", "own namespace", "two namespaces"],
)
def test_the_operator_watches_the_namespaces_in_which_it_has_rights(
    helm: Helm, values: dict[str, Any], expected: str
) -> None:
    assert environment(rendered(helm, values))["FLEETAGENT_NAMESPACES"] == expected


@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_both_containers_reach_the_same_database_in_the_same_way(helm: Helm, kind: str) -> None:
    (container,) = pod_spec(rendered(helm, EVERYTHING))[kind]

    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in container["env"]
    assert {"name": "ca", "mountPath": "/etc/postgres-ca", "readOnly": True} in container["volumeMounts"]
    assert container["env"][0] == {
        "name": "FLEETAGENT_DATABASE_URL",
        "valueFrom": {"secretKeyRef": {"name": "postgres-app", "key": "uri"}},
    }


def test_each_service_leads_to_the_part_that_it_is_named_after(helm: Helm) -> None:
    objects = rendered(helm, EVERYTHING)
    ports = {each["name"]: each["containerPort"] for each in pod_spec(objects)["containers"][0]["ports"]}

    leads_to = {
        service["metadata"]["name"]: ports[service["spec"]["ports"][0]["targetPort"]]
        for service in objects
        if service["kind"] == "Service"
    }

    assert leads_to == {"porep-agents-worker": 9082, "porep-agents-web": 9080, "porep-agents-health": 9081}


def test_only_the_workers_paths_are_on_the_internet(helm: Helm) -> None:
    rules = the(rendered(helm, EVERYTHING), "Ingress", "porep-agents-worker")["spec"]["rules"]

    assert [rule["host"] for rule in rules] == ["workers.example", "*.more.example"]
    for rule in rules:
        (path,) = rule["http"]["paths"]
        assert (path["path"], path["backend"]["service"]["name"]) == ("/workers", "porep-agents-worker")


def test_the_pages_ingress_leads_to_the_page(helm: Helm) -> None:
    ingress = the(rendered(helm, EVERYTHING), "Ingress", "porep-agents-web")
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]

    assert (rule["host"], path["path"], path["backend"]["service"]["name"]) == (
        "fleetagent.example",
        "/",
        "porep-agents-web",
    )
    assert ingress["spec"]["tls"] == [{"secretName": "fleetagent-tls", "hosts": ["fleetagent.example"]}]
    assert ingress["metadata"]["annotations"] == {"nginx.ingress.kubernetes.io/affinity": "cookie"}


def test_people_get_their_rights_by_the_roles_that_they_have(helm: Helm) -> None:
    roles = {
        each["metadata"]["name"].removeprefix(f"{FULL_NAME}-"): each
        for each in rendered(helm, {})
        if each["metadata"].get("labels", {}).get(COMPONENT) == "people"
    }
    to = "rbac.authorization.k8s.io/aggregate-to-"
    joins = {
        name: {label.removeprefix(to) for label in role["metadata"]["labels"] if label.startswith(to)}
        for name, role in roles.items()
    }
    verbs = {name: set(role["rules"][0]["verbs"]) for name, role in roles.items()}

    assert joins == {"viewer": {"view", "edit", "admin"}, "steerer": set(), "editor": {"edit", "admin"}}
    assert verbs["viewer"] == {"get", "list", "watch"}
    assert verbs["steerer"] == {"get", "list", "watch", "patch"}
    assert all(role["rules"][0]["resources"] == ["fleetagents"] for role in roles.values())
    for values in ({"rbac": {"aggregate": False}}, {"rbac": {"clusterWide": False}}, {"namespaces": ["a"]}):
        labels = [each["metadata"].get("labels", {}) for each in rendered(helm, values)]
        assert "people" not in {each.get(COMPONENT) for each in labels}


@pytest.mark.parametrize("values", PROFILES.values(), ids=PROFILES.keys())
def test_what_selects_the_operator_never_selects_the_tests_pod(helm: Helm, values: dict[str, Any]) -> None:
    objects = rendered(helm, values, hooks=True)
    operator = the(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    test = the(objects, "Pod")["metadata"]["labels"].items()
    selectors = [each["spec"]["selector"] for each in objects if each["kind"] == "Service"]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in objects if each["kind"] == "NetworkPolicy"]
    selectors += [each["labelSelector"]["matchLabels"] for each in pod_spec(objects)["topologySpreadConstraints"]]
    budgets = [each["spec"]["selector"]["matchLabels"] for each in objects if each["kind"] == "PodDisruptionBudget"]

    assert all(selector.items() <= operator for selector in (*selectors, *budgets))
    assert not any(selector.items() <= test for selector in (*selectors, *budgets))
    assert len(budgets) == (1 if the(objects, "Deployment")["spec"]["replicas"] > 1 else 0)


def test_a_service_monitor_selects_the_service_with_the_metrics_alone(helm: Helm) -> None:
    asked = {"web": {"serviceMonitor": {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}}}}
    objects = rendered(helm, asked)
    monitor = the(objects, "ServiceMonitor")
    selector = monitor["spec"]["selector"]["matchLabels"].items()

    services = [
        each for each in objects if each["kind"] == "Service" and selector <= each["metadata"]["labels"].items()
    ]

    assert [each["metadata"]["name"] for each in services] == [f"{FULL_NAME}-web"]
    assert [port["name"] for port in services[0]["spec"]["ports"]] == [monitor["spec"]["endpoints"][0]["port"]]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_the_definition_is_the_generated_one_and_outlives_the_release(helm: Helm) -> None:
    definition = the(rendered(helm, {}), "CustomResourceDefinition")
    generated = yaml.safe_load((CHART / "files" / "fleetagents.yaml").read_text(encoding="utf-8"))

    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert definition["spec"] == generated["spec"]


def test_the_package_holds_no_more_than_the_chart(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.iterdir()

    assert package.stat().st_size < 100_000
    assert Helm(chart=package).rendered(RELEASE, NAMESPACE) == rendered(helm, {})


@pytest.mark.usefixtures("namespaces")
def test_the_operator_may_do_what_it_needs_and_nothing_else(control_plane: ControlPlane) -> None:
    objects = operator_objects(NAMESPACE, "narrow", [WATCHED[0]], PEERING)
    control_plane.kubectl("apply", "--filename=-", stdin=as_list(objects))
    user = f"system:serviceaccount:{NAMESPACE}:narrow"

    people.until_granted(control_plane, user, "watch", WATCHED[0])

    def may(verb: str, resource: str, *, group: str = "", namespace: str = WATCHED[0], **more: str) -> bool:
        return people.may(control_plane, user, verb=verb, resource=resource, group=group, namespace=namespace, **more)

    assert may("watch", "fleetagents", group="fleetagent.dev")
    assert may("patch", "fleetagents", group="fleetagent.dev", subresource="status")
    assert may("create", "events")
    assert may("get", "secrets", name="vast")
    assert may("get", "configmaps", name="fleetagent-stop", namespace=NAMESPACE)
    assert may("watch", "kopfpeerings", group="kopf.dev")
    assert may("patch", "kopfpeerings", group="kopf.dev", name=PEERING)

    assert not may("patch", "events")
    assert not may("get", "fleetagents", group="fleetagent.dev", subresource="status")
    assert not may("list", "secrets")
    assert not may("get", "secrets", name="vast", namespace=WATCHED[1])
    assert not may("watch", "fleetagents", group="fleetagent.dev", namespace=WATCHED[1])
    assert not may("get", "configmaps", name="other", namespace=NAMESPACE)
    assert not may("create", "pods")
    assert not may("delete", "fleetagents", group="fleetagent.dev")
    assert not may("patch", "kopfpeerings", group="kopf.dev", name="another")
    assert not may("patch", "kopfpeerings", group="kopf.dev", name=PEERING, namespace=WATCHED[1])
