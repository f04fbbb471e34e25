"""Releases of the chart on a real API server: installed, upgraded, rolled back, uninstalled, installed again.

There is no node and no controller for Deployments behind it, so nothing here waits for pods.
"""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetagent.dev.controlplane import ControlPlane, KubectlError
from support.cluster import eventually
from support.helm import CHART, Helm, HelmError
from support.on_cluster import (
    DEFINITION,
    a_namespace,
    agents,
    an_agent,
    an_old_definition,
    definitions,
    described,
    get,
    installed,
)
from support.profiles import PROFILES, WATCHED

PREVIOUS = Path(__file__).parents[1] / "previous" / "fleetagent-0.1.0.tgz"
RELEASE = "fleetagent"
GONE_WITHIN_S = 120.0  # an API server takes its time to clean up behind a definition, more so under load
PEERING_DEFINITIONS = {"clusterkopfpeerings.kopf.dev", "kopfpeerings.kopf.dev"}


@pytest.fixture(scope="module")
def empty_cluster() -> Iterator[ControlPlane]:
    """Of our own: here CustomResourceDefinitions come and go."""
    with ControlPlane.start() as running:
        yield running


@pytest.fixture
def cluster(empty_cluster: ControlPlane) -> Iterator[ControlPlane]:
    """Without any CustomResourceDefinition, or ours of the test before."""
    yield empty_cluster
    helm = Helm(empty_cluster.kubeconfig)
    for release in json.loads(helm.run("list", "--all-namespaces", "--output", "json")):
        helm.run("uninstall", release["name"], "--namespace", release["namespace"])
    empty_cluster.kubectl("delete", "customresourcedefinition", "--all", "--wait=false")

    def gone() -> bool:
        left = definitions(empty_cluster)
        for name in left:  # a change wakes the API server, which waits ever longer between its own tries
            with suppress(KubectlError):
                now = f"test/at={time.monotonic()}"
                empty_cluster.kubectl("annotate", "customresourcedefinition", name, now, "--overwrite")
        return not left

    eventually(gone, "the definitions are gone", within_s=GONE_WITHIN_S, every_s=2)


@pytest.fixture
def helm(cluster: ControlPlane) -> Helm:
    return Helm(cluster.kubeconfig)


@pytest.fixture
def home(cluster: ControlPlane) -> str:
    """A namespace that lets in only what keeps to PodSecurity `restricted`."""
    return a_namespace(cluster)


def test_one_command_installs_everything_and_a_second_changes_nothing(
    cluster: ControlPlane, helm: Helm, home: str
) -> None:
    helm.run("install", RELEASE, CHART, "--namespace", home)

    assert definitions(cluster) == {DEFINITION, *PEERING_DEFINITIONS}
    assert get(cluster, "clusterkopfpeerings", "fleetagent")
    before = [get(cluster, *what)["metadata"] for what in ([f"crd/{DEFINITION}"], ["-n", home, f"deploy/{RELEASE}"])]
    helm.run("upgrade", RELEASE, CHART, "--namespace", home)
    after = [get(cluster, *what)["metadata"] for what in ([f"crd/{DEFINITION}"], ["-n", home, f"deploy/{RELEASE}"])]
    assert [each["generation"] for each in after] == [each["generation"] for each in before] == [1, 1]


def test_one_release_goes_through_every_profile_and_back(cluster: ControlPlane, helm: Helm, home: str) -> None:
    if helm.major < 4:
        pytest.skip("Helm 3 cannot roll back to a revision with an object that a newer one has only kept")
    for name in WATCHED:
        cluster.kubectl("create", "namespace", name)

    here = ("--namespace", home, "--history-max=0")
    for values in PROFILES.values():
        helm.run("upgrade", "--install", RELEASE, CHART, *here, values=values)
        if not agents(cluster, home):
            an_agent(cluster, home)
    for revision in range(len(PROFILES) - 1, 0, -1):
        helm.run("rollback", RELEASE, str(revision), *here)

    assert agents(cluster, home) == ["porep"]
    deployment = get(cluster, "--namespace", home, "deployment", RELEASE)["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (2, "RollingUpdate")
    assert [each["metadata"]["name"] for each in get(cluster, "clusterkopfpeerings")["items"]] == ["fleetagent"]
    assert get(cluster, "kopfpeerings", "--all-namespaces")["items"] == []
    roles = get(cluster, "roles", "--all-namespaces", "--selector=app.kubernetes.io/managed-by=Helm")["items"]
    assert [each["metadata"]["name"] for each in roles] == [f"{RELEASE}-home"]


def test_an_upgrade_from_the_previous_chart_says_what_it_lacks_then_goes_through_and_back(
    cluster: ControlPlane, helm: Helm, home: str
) -> None:
    helm.run("install", RELEASE, PREVIOUS, "--namespace", home)
    an_agent(cluster, home)
    before = get(cluster, "--namespace", home, "deployment", RELEASE)["spec"]
    old = installed(cluster)

    with pytest.raises(
        HelmError, match=r'(?s)no matches for kind "ClusterKopfPeering".*ensure CRDs are installed first'
    ):
        helm.run("upgrade", RELEASE, CHART, "--namespace", home)
    assert get(cluster, "--namespace", home, "deployment", RELEASE)["spec"] == before

    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=helm.run("show", "crds", CHART))
    helm.run("upgrade", RELEASE, CHART, "--namespace", home)
    generated = yaml.safe_load((CHART / "files" / "fleetagents.yaml").read_text(encoding="utf-8"))
    assert installed(cluster) == generated["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert installed(cluster) != old
    deployment = get(cluster, "--namespace", home, "deployment", RELEASE)["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (2, "RollingUpdate")

    helm.run("rollback", RELEASE, "1", "--namespace", home)
    assert get(cluster, "--namespace", home, "deployment", RELEASE)["spec"] == before
    assert installed(cluster) == old
    assert agents(cluster, home) == ["porep"]


def test_values_of_the_previous_chart_alone_are_refused_instead_of_meaning_no_replica(
    cluster: ControlPlane, helm: Helm, home: str
) -> None:
    helm.run("install", RELEASE, PREVIOUS, "--namespace", home)
    cluster.kubectl("apply", "--server-side", "--filename=-", stdin=helm.run("show", "crds", CHART))

    with pytest.raises(HelmError, match=r"(?s)missing propert.*'replicas'"):
        helm.run("upgrade", RELEASE, CHART, "--namespace", home, "--reuse-values")
    helm.run("upgrade", RELEASE, CHART, "--namespace", home, "--reset-then-reuse-values")

    assert get(cluster, "--namespace", home, "deployment", RELEASE)["spec"]["replicas"] == 2


def test_an_uninstall_keeps_definitions_and_agents_and_the_same_release_takes_them_back(
    cluster: ControlPlane, helm: Helm, home: str
) -> None:
    helm.run("install", RELEASE, CHART, "--namespace", home, values={"rbac": {"clusterWide": False}})
    an_agent(cluster, home)

    said = helm.run("uninstall", RELEASE, "--namespace", home)

    assert f"[CustomResourceDefinition] {DEFINITION}" in said
    assert definitions(cluster) == {DEFINITION, *PEERING_DEFINITIONS}
    assert agents(cluster, home) == ["porep"]
    left = get(cluster, "--namespace", home, "deployments,services,serviceaccounts,roles,rolebindings,kopfpeerings")
    assert [each["metadata"]["name"] for each in left["items"]] == ["default"]

    helm.run("install", RELEASE, CHART, "--namespace", home, values={"rbac": {"clusterWide": False}})
    assert agents(cluster, home) == ["porep"]


def test_a_release_of_another_name_takes_kept_definitions_only_when_told_to(
    cluster: ControlPlane, helm: Helm, home: str
) -> None:
    helm.run("install", RELEASE, CHART, "--namespace", home)
    an_agent(cluster, home)
    helm.run("uninstall", RELEASE, "--namespace", home)

    with pytest.raises(HelmError, match=f"{DEFINITION}.* exists and cannot be imported"):
        helm.run("install", "another", CHART, "--namespace", home)
    helm.run("upgrade", "--install", "another", CHART, "--namespace", home, "--take-ownership")

    assert get(cluster, "crd", DEFINITION)["metadata"]["annotations"]["meta.helm.sh/release-name"] == "another"
    assert agents(cluster, home) == ["porep"]


@pytest.mark.parametrize("how", [["--server-side"], ["--server-side=false"]], ids=["server-side", "client-side"])
def test_a_definition_that_was_applied_by_hand_is_taken_over_and_brought_up_to_date(
    cluster: ControlPlane, helm: Helm, home: str, how: list[str]
) -> None:
    cluster.kubectl("apply", *how, "--filename=-", stdin=an_old_definition())
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{DEFINITION}")
    an_agent(cluster, home)
    flags = ["--namespace", home, "--take-ownership"]

    with pytest.raises(HelmError, match="cannot be imported"):
        helm.run("upgrade", "--install", RELEASE, CHART, "--namespace", home)
    if helm.major >= 4:  # Helm 3 knows no field managers, and takes it over at once
        with pytest.raises(HelmError, match='conflict with "kubectl'):
            helm.run("upgrade", "--install", RELEASE, CHART, *flags)
        assert described(cluster) == "Of old."
        flags += ["--force-conflicts"]
    helm.run("upgrade", "--install", RELEASE, CHART, *flags)

    assert described(cluster) == "The proving rate to keep."
    helm.run("upgrade", RELEASE, CHART, "--namespace", home)
    assert agents(cluster, home) == ["porep"]


@pytest.mark.parametrize(
    ("first", "second"),
    [({}, {}), ({"namespaces": ["shared"]}, {"namespaces": ["own", "shared"]})],
    ids=["both everywhere", "one namespace twice"],
)
def test_helm_refuses_a_second_release_for_what_another_watches(
    cluster: ControlPlane, helm: Helm, home: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    for name in second.get("namespaces", []):
        cluster.kubectl("create", "namespace", name)
    helm.run("install", RELEASE, CHART, "--namespace", home, values=first)

    with pytest.raises(HelmError, match=r'KopfPeering "fleetagent" in namespace ".*" exists and cannot be imported'):
        helm.run("install", "second", CHART, "--namespace", home, values={**second, "crds": {"install": False}})

    assert [each["name"] for each in json.loads(helm.run("list", "--namespace", home, "--output", "json"))] == [RELEASE]


def test_two_releases_of_one_name_on_namespaces_of_their_own_do_not_meet(cluster: ControlPlane, helm: Helm) -> None:
    homes = sorted(a_namespace(cluster) for _ in range(2))

    for home, watched, owner in zip(homes, reversed(homes), (True, False), strict=True):  # each in the other's home
        values = {"namespaces": [watched], "crds": {"install": owner}}
        helm.run("install", RELEASE, CHART, "--namespace", home, values=values)

    for home, watched in zip(homes, reversed(homes), strict=True):
        (subject,) = get(cluster, "--namespace", watched, "rolebinding", RELEASE)["subjects"]
        assert (subject["name"], subject["namespace"]) == (RELEASE, home)
    helm.run("uninstall", RELEASE, "--namespace", homes[1])
    assert get(cluster, "--namespace", homes[1], "role", RELEASE)["metadata"]["annotations"] == {
        "meta.helm.sh/release-name": RELEASE,
        "meta.helm.sh/release-namespace": homes[0],
    }
