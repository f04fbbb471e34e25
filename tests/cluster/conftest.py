"""The stage: a cluster that is for tests, and nothing left on it at the end."""

import contextlib
import os
import subprocess
from collections.abc import Generator, Iterator

import pytest

from cluster.release import AGENTS, HOME, MINE, NAME, RELEASE, Release

DEFINITIONS = ("fleetagents.fleetagent.dev", "kopfpeerings.kopf.dev", "clusterkopfpeerings.kopf.dev")


@pytest.fixture(scope="session")
def image() -> str:
    """The image that `make e2e` has built and loaded."""
    named = os.environ.get("IMAGE")
    if not named:
        pytest.fail("IMAGE is not set: run this by `make e2e`")
    return named


@pytest.fixture(scope="session")
def release(image: str) -> Iterator[Release]:
    """Refuses a cluster that somebody uses; takes everything away in the end, also after a failure."""
    if not os.environ.get("KUBECONFIG"):
        pytest.fail("KUBECONFIG is not set: run this by `make e2e`")
    release = Release(os.environ.get("HELM", "helm"), image)
    there = [name for name in DEFINITIONS if release.exists("crd", name)]
    if there:
        pytest.exit(f"this cluster is in use, it has {', '.join(there)}: take one that is for tests", returncode=2)
    yield release
    _clear(release)


def _clear(release: Release) -> None:
    """Best effort, and in the order in which nothing waits for what is gone already."""
    for command in (
        [release.helm_path, "--namespace", HOME, "uninstall", RELEASE, "--ignore-not-found"],
        _finalizers_off(),
        ["kubectl", "delete", "namespace", HOME, AGENTS, "--ignore-not-found", "--timeout=2m"],
        ["kubectl", "delete", "crd", *DEFINITIONS, "--ignore-not-found", "--timeout=1m"],
        ["kubectl", "delete", "clusterrole,clusterrolebinding", "-l", MINE],
    ):
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, check=False, timeout=180)


def _finalizers_off() -> list[str]:
    patch = '{"metadata":{"finalizers":null}}'
    return ["kubectl", "-n", AGENTS, "patch", "fleetagent", NAME, "--type=merge", "-p", patch]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure on a cluster is told with what the cluster says."""
    report = yield
    if report.when != "teardown" and report.failed and "release" in getattr(item, "fixturenames", ()):
        report.sections.append(("the cluster", _what_the_cluster_says()))
    return report


def _what_the_cluster_says() -> str:
    said = []
    for command in (
        ["kubectl", "get", "all", "-n", HOME, "-o", "wide"],
        ["kubectl", "describe", "pods", "-n", HOME, "-l", MINE],
        ["kubectl", "logs", "-n", HOME, "-l", MINE, "--all-containers", "--tail=60", "--prefix"],
        ["kubectl", "get", "events", "-n", HOME, "--sort-by=.lastTimestamp"],
        ["kubectl", "get", "fleetagents,events", "-n", AGENTS],
        ["kubectl", "get", "fleetagents", "-n", AGENTS, "-o", "yaml"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        said.append(f"$ {' '.join(command)}\n{(done.stdout + done.stderr)[-8000:]}")
    return "\n".join(said)
