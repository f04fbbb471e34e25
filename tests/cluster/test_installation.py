"""The life of an installation on a real node, in order: each test begins where the one before it ended."""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

from cluster.release import AGENTS, CHART, HOME, MINE, NAME, OPERATORS, RELEASE, TRY_OUT, Json, Release, done, told

UNKNOWN_USER = 1_000_660_000
"""As a platform chooses it that gives each namespace its own."""

AS_UNKNOWN = ",".join(f"podSecurityContext.{name}={UNKNOWN_USER}" for name in ("runAsUser", "runAsGroup", "fsGroup"))
TAKEN_OVER_WITHIN_S = 30
ENDED_WITHIN_S = 45
"""Half of the grace that the chart gives, and more than a process needs whose account is taken away while it ends."""

LOOKS_AROUND = """
import pathlib
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/1/status").read_text().splitlines())
print(*(status[name].split()[0] for name in ("Uid", "CapEff", "NoNewPrivs", "Seccomp")))
try:
    pathlib.Path("/opt/fleetagent/x").touch()
except OSError as error:
    print(error.strerror)
"""


def containers(pod: Json) -> list[Json]:
    return [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]


def working(release: Release) -> str:
    """The pod whose turn it is: the one of the highest priority among those that are alive."""
    alive = {pod["metadata"]["name"] for pod in release.operators()}
    peers = release.get("clusterkopfpeering", RELEASE)["status"].items()
    turn: tuple[int, str] = max(
        (peer["priority"], pod) for name, peer in peers if (pod := name.partition("/")[0]) in alive
    )
    return turn[1]


def launches(release: Release) -> int:
    created: int = release.market()["created"]
    return created


def test_the_script_installs_all_of_it_and_the_agent_reaches_its_target(release: Release) -> None:
    settings = [f"IMAGE={release.image}", f"HELM={release.helm_path}"]

    told("env", *settings, str(TRY_OUT / "install.sh"), "--set", AS_UNKNOWN)

    deployment = release.get("deployment", RELEASE, "-n", HOME)
    assert deployment["status"]["readyReplicas"] == deployment["spec"]["replicas"] == 2
    assert {c["image"] for pod in release.operators() for c in containers(pod)} == {release.image}
    # Reached, not only promised: the simulated machines have reported to the Service.
    release.wait_for(lambda: release.condition("OnTarget").get("reason") == "Reached", "the target is reached", 120)
    assert release.status()["fleet"]["proofsPerHour"] >= 485
    release.check_books()


def test_the_namespace_takes_only_restricted_pods_and_the_operator_is_one(release: Release) -> None:
    refused = done("kubectl", "-n", HOME, "run", "free", f"--image={release.image}", "--dry-run=server")
    seen = release.kubectl("-n", HOME, "exec", f"deployment/{RELEASE}", "--", "python3", "-c", LOOKS_AROUND).split("\n")

    assert 'violates PodSecurity "restricted' in refused.stderr
    assert seen[:2] == [f"{UNKNOWN_USER} 0000000000000000 1 2", "Read-only file system"]


def test_an_annotation_starts_a_run_at_the_model(release: Release) -> None:
    asked = release.model()["requests"]

    took_s = release.served_a_request("first")

    assert took_s < 15
    assert release.rows("SELECT outcome FROM runs WHERE triggers::text LIKE '%Request%'")
    assert release.model()["requests"] > asked


def test_a_reset_starts_a_new_session_and_keeps_the_machines(release: Release) -> None:
    before, created = release.status(), launches(release)

    release.annotate(reset_requested_at="first")
    release.wait_for(lambda: release.status()["session"]["id"] > before["session"]["id"], "a new session")

    after = release.status()
    assert after["lastHandledReset"] == "first"
    assert after["lastRunID"] >= before["lastRunID"]
    assert after["fleet"]["proving"] == before["fleet"]["proving"]
    release.served_a_request("after the reset")
    assert launches(release) == created


def test_the_plugin_reads_the_past_through_a_port_forward_with_a_token_of_an_account_that_may(release: Release) -> None:
    for what in (
        ("serviceaccount", "reader"),
        ("role", "reader", "--verb=get,list", "--resource=fleetagents.fleetagent.dev"),
        ("rolebinding", "reader", "--role=reader", f"--serviceaccount={AGENTS}:reader"),
    ):
        release.kubectl("-n", AGENTS, "create", *what)
    path = f"PATH={Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    asked = ("-n", AGENTS, "--as-service-account", "reader", "--limit", "1", "--outcome", "Acted", "-o", "json")

    runs = json.loads(told("env", path, "kubectl", "fleetagent", "runs", NAME, *asked))["items"]

    assert [run["outcome"] for run in runs] == ["Acted"]


def test_helm_test_succeeds(release: Release) -> None:
    assert re.search(r"Phase:\s+Succeeded", release.helm("test", RELEASE, "--timeout", "2m"))


def test_the_stop_of_the_installation_is_heard_from_its_namespace(release: Release) -> None:
    release.kubectl("-n", HOME, "create", "configmap", "fleetagent-stop")
    try:
        release.wait_for(
            lambda: release.condition("Suspended").get("reason") == "InstallationStopped", "it is stopped", 90
        )
    finally:
        release.kubectl("-n", HOME, "delete", "configmap", "fleetagent-stop")
    release.wait_for(lambda: release.condition("Suspended").get("status") == "False", "it goes on", 90)


def test_another_replica_takes_over_when_the_working_pod_is_killed(release: Release) -> None:
    old, created, run = working(release), launches(release), release.status()["lastRunID"]
    assert f"run {run}" in release.kubectl("-n", HOME, "logs", old), "another one works"

    release.kubectl("-n", HOME, "delete", "pod", old, "--grace-period=0", "--force")
    release.annotate(requested_at="while nobody works")
    since = time.monotonic()
    release.wait_for(lambda: release.status()["lastHandledRequest"] == "while nobody works", "it is taken over")

    assert time.monotonic() - since < TAKEN_OVER_WITHIN_S
    assert working(release) != old
    assert release.status()["lastRunID"] > run
    assert launches(release) == created
    release.kubectl("-n", HOME, "rollout", "status", f"deployment/{RELEASE}", "--timeout=2m")
    release.check_books()


def test_an_upgrade_brings_the_new_image_and_values_and_no_request_is_lost(release: Release) -> None:
    created = launches(release)
    old_ids = image_ids(release)
    release.annotate(requested_at="just before the upgrade")

    release.upgrade("--set", f"{AS_UNKNOWN},leaseSeconds=10,logFormat=text", image=release.next_image)

    release.wait_for(lambda: release.status()["lastHandledRequest"] == "just before the upgrade", "it is served")
    release.wait_for(lambda: len(release.operators()) == 2, "only the new ones are there", 120)
    pods = release.operators()
    assert {c["image"] for pod in pods for c in containers(pod)} == {release.next_image}
    assert not old_ids & image_ids(release), "a new tag on the old image"
    env = {e["name"]: e.get("value") for e in pods[0]["spec"]["containers"][0]["env"]}
    assert (env["FLEETAGENT_LEASE_SECONDS"], env["FLEETAGENT_LOG_FORMAT"]) == ("10", "text")
    release.served_a_request("after the upgrade")
    assert launches(release) == created


def image_ids(release: Release) -> set[str]:
    return {s["imageID"] for pod in release.operators() for s in pod["status"]["containerStatuses"]}


def test_an_upgrade_to_an_image_that_is_not_there_fails_and_the_old_pods_work_on(release: Release) -> None:
    repository, _, tag = release.image.rpartition(":")
    absent = ["--set-string", f"image.repository={repository},image.tag={tag}-absent"]
    values = ["--values", str(TRY_OUT / "values.yaml"), *absent, "--set", AS_UNKNOWN]
    waiting = ["--wait", "--timeout", "20s"]

    ended = done(release.helm_path, "-n", HOME, "upgrade", RELEASE, str(CHART), *values, *waiting)

    assert ended.returncode != 0, ended.stdout
    release.served_a_request("while the upgrade hangs")


def test_a_rollback_brings_the_first_image_and_values_back(release: Release) -> None:
    created, run = launches(release), release.status()["lastRunID"]

    release.helm("rollback", RELEASE, "1", "--wait", "--timeout", "3m")

    release.wait_for(
        lambda: {c["image"] for pod in release.operators() for c in containers(pod)} == {release.image},
        "only the first image runs",
        120,
    )
    env = {e["name"]: e.get("value") for e in release.operators()[0]["spec"]["containers"][0]["env"]}
    assert (env["FLEETAGENT_LEASE_SECONDS"], env["FLEETAGENT_LOG_FORMAT"]) == ("15", "json")
    release.served_a_request("after the rollback")
    assert release.status()["lastRunID"] > run
    assert launches(release) == created
    release.check_books()


def test_no_pod_was_ever_restarted(release: Release) -> None:
    pods = release.get("pods", "-n", HOME)["items"]

    assert {s["restartCount"] for pod in pods for s in pod["status"]["containerStatuses"]} == {0}


def uninstall(release: Release) -> None:
    since = time.monotonic()
    release.helm("uninstall", RELEASE, "--wait", "--timeout", "2m")
    release.wait_for(lambda: not release.get("pods", "-n", HOME, "-l", OPERATORS)["items"], "its pods are gone", 120)
    assert time.monotonic() - since < ENDED_WITHIN_S, "a pod was killed at the end of its grace"


def test_uninstalling_keeps_the_agents_and_their_machines(release: Release) -> None:
    live = release.market()["live"]

    uninstall(release)

    assert release.exists("crd", "fleetagents.fleetagent.dev")
    assert release.exists("fleetagent", NAME, "-n", AGENTS)
    assert release.market()["live"] == live > 0


def test_a_deletion_without_an_operator_waits_and_a_new_installation_gives_the_machines_back(release: Release) -> None:
    release.kubectl("-n", AGENTS, "delete", "fleetagent", NAME, "--wait=false")
    assert release.get("fleetagent", NAME, "-n", AGENTS)["metadata"]["deletionTimestamp"]

    release.upgrade("--set", AS_UNKNOWN, image=release.image)

    release.wait_for(lambda: not release.exists("fleetagent", NAME, "-n", AGENTS), "the agent is gone", 120)
    assert release.market()["live"] == 0
    release.check_books()


def test_after_the_last_uninstall_only_the_definitions_are_left(release: Release) -> None:
    uninstall(release)

    kinds = told("kubectl", "api-resources", "--verbs=list", "--output=name").split()
    kinds = [kind for kind in kinds if not kind.endswith((".metrics.k8s.io", "events.k8s.io"))]
    left = release.kubectl(
        "get", ",".join(kinds), "--all-namespaces", "-l", MINE, "--output=name", "--ignore-not-found"
    )

    assert left.split() == ["customresourcedefinition.apiextensions.k8s.io/fleetagents.fleetagent.dev"]


@pytest.mark.parametrize("namespace", [AGENTS, HOME])
def test_the_namespaces_can_be_deleted(release: Release, namespace: str) -> None:
    release.kubectl("delete", "namespace", namespace, "--timeout=2m")

    assert not release.exists("namespace", namespace)
