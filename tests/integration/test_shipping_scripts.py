"""What the scripts behind `make image`, `make kind` and `make e2e` say when something is missing, and what they call.

Docker, kind, kubectl and Helm are recorders here; the end-to-end tests run the same scripts on a real cluster.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from fleetagent.domain.resource import FleetAgentSpec

REPOSITORY = Path(__file__).parents[2]
UP = REPOSITORY / "examples" / "kind" / "up.sh"
BUILD = REPOSITORY / "image" / "build.sh"
BASE = REPOSITORY / "image" / "base.sh"
NODE = REPOSITORY / "tests" / "cluster" / "node.sh"
ORDINARY = ("bash", "env", "cat", "dirname", "grep", "id", "sed", "tail", "timeout", "mktemp", "rm", "tar", "cp")

RECORDER = """#!/bin/bash
case "$*" in *" -") cat > /dev/null ;; esac
case "$*" in {fails}) exit 1 ;; esac
echo "${{0##*/}} $*" >> "{calls}"
case "$*" in {says}) echo "{what}" ;; esac
"""


@dataclass
class Machine:
    """A PATH on which only the ordinary programs are, and those that a test puts there."""

    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    def has(self, name: str, *, fails: str = "never", says: str = "never", what: str = "") -> None:
        """A program that notes its arguments; it fails, or says something, when they match a pattern of the shell."""
        script = self.programs / name
        script.write_text(RECORDER.format(calls=self.folder / "calls", fails=fails, says=says, what=what))
        script.chmod(0o755)

    def runs(self, script: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": str(self.programs), "HOME": str(self.folder), **env}
        return subprocess.run(
            [str(self.programs / "bash"), str(script), *arguments],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def calls(self) -> list[str]:
        noted = self.folder / "calls"
        return noted.read_text().splitlines() if noted.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.programs.mkdir()
    for name in ORDINARY:
        found = shutil.which(name)
        assert found, name
        (machine.programs / name).symlink_to(found)
    return machine


def all_but(machine: Machine, missing: str) -> Machine:
    for name in ("docker", "kind", "kubectl", "helm"):
        if name != missing:
            machine.has(name, says="get\\ clusters", what="another")
    return machine


@pytest.mark.parametrize("missing", ["docker", "kind", "kubectl", "helm"])
def test_kind_is_refused_with_the_name_of_what_is_missing(machine: Machine, missing: str) -> None:
    ended = all_but(machine, missing).runs(UP)

    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {missing} is not installed")


def test_kind_is_refused_when_dockers_daemon_does_not_answer(machine: Machine) -> None:
    all_but(machine, "docker").has("docker", fails="info")

    ended = machine.runs(UP)

    assert (ended.returncode, len(machine.calls())) == (1, 0)
    assert "its daemon does not answer" in ended.stderr


def test_kind_is_refused_without_the_image(machine: Machine) -> None:
    all_but(machine, "docker").has("docker", fails="image*")

    assert machine.runs(UP, IMAGE="mine:3").stderr == "error: there is no image mine:3; build it with: make image\n"


def test_kind_brings_a_cluster_the_image_and_then_all_of_it_in_this_order(machine: Machine) -> None:
    ended = all_but(machine, "").runs(UP, IMAGE="registry.example:5000/team/mine:3", KIND_CLUSTER="try")

    assert ended.returncode == 0, ended.stderr
    calls = [call for call in machine.calls() if not call.startswith("docker")]
    order = [
        "kind get clusters",
        "kind create cluster --name try",
        "kind load docker-image registry.example:5000/team/mine:3 --name try",
        "kubectl --context kind-try apply -f namespaces.yaml",
        "kubectl --context kind-try apply -f -",
        "kubectl --context kind-try apply -f -",
        "kubectl --context kind-try -n fleetagent-system rollout status deployment/postgres",
        "kubectl --context kind-try -n fleetagent-system rollout status deployment/marketplace",
        "kubectl --context kind-try -n fleetagent-system rollout status deployment/model",
        "helm upgrade --install fleetagent ../../charts/fleetagent --kube-context kind-try",
        "kubectl --context kind-try apply -f fleetagent.yaml",
        "kubectl --context kind-try -n fleet wait --for=condition=OnTarget fleetagent/porep",
        "kubectl --context kind-try -n fleet get fleetagents",
    ]
    assert [call[: len(start)] for call, start in zip(calls, order, strict=True)] == order
    assert "image.repository=registry.example:5000/team/mine,image.tag=3 --wait" in calls[9]
    assert "kind delete cluster --name try" in ended.stdout


def test_a_kind_cluster_that_is_there_is_used(machine: Machine) -> None:
    all_but(machine, "kind").has("kind", says="get\\ clusters", what="fleetagent")

    assert machine.runs(UP).returncode == 0
    assert not [call for call in machine.calls() if call.startswith("kind create")]


def test_where_kind_makes_no_cluster_it_is_said_and_nothing_else_is_tried(machine: Machine) -> None:
    all_but(machine, "kind").has("kind", fails="create*")

    ended = machine.runs(UP)

    assert (ended.returncode, "kind made no cluster" in ended.stderr) == (1, True)
    assert not [call for call in machine.calls() if call.startswith(("kubectl", "helm"))]


def test_kind_that_does_not_answer_is_named(machine: Machine) -> None:
    all_but(machine, "kind").has("kind", fails="get*")

    ended = machine.runs(UP)

    assert (ended.returncode, "kind does not answer" in ended.stderr) == (1, True)


def test_an_image_is_refused_without_docker(machine: Machine) -> None:
    assert machine.runs(BUILD, "mine:3").stderr.startswith("error: docker is not installed")


def test_an_image_is_built_on_the_base_that_is_named_with_what_pip_is_told(machine: Machine) -> None:
    machine.has("docker", says="image\\ inspect\\ --format*", what="380000000")

    ended = machine.runs(
        BUILD, "mine:3", PYTHON_IMAGE="mirror.example/python:3.12", PIP_INDEX_URL="https://pip.example"
    )

    assert (
        "docker build --build-arg PYTHON_IMAGE=mirror.example/python:3.12 --tag mine:3 --build-arg PIP_INDEX_URL ."
        in (machine.calls())
    )
    assert ended.stdout == "mine:3: 380 MB, from mirror.example/python:3.12\n"


def test_where_no_base_can_be_pulled_one_is_made_and_used(machine: Machine) -> None:
    machine.has("docker", fails="pull*|image\\ inspect\\ python*", says="image\\ inspect\\ --format*", what="380000000")

    ended = machine.runs(BUILD, "mine:3")

    assert ended.returncode == 0, ended.stderr
    assert "fleetagent-base:bookworm is there" in ended.stdout
    assert machine.calls()[-2] == (
        "docker build --build-arg PYTHON_IMAGE=fleetagent-base:bookworm --tag mine:3 --network host ."
    )


def test_a_base_is_refused_without_debootstrap(machine: Machine) -> None:
    machine.has("docker", fails="image*")

    assert machine.runs(BASE, "base:1").stderr.startswith("error: debootstrap is not installed")


@pytest.mark.skipif(os.geteuid() != 0, reason="shows what root is told")
def test_a_base_that_cannot_be_made_leaves_no_image_behind(machine: Machine) -> None:
    machine.has("docker", fails="image*")
    machine.has("debootstrap", fails="*")

    ended = machine.runs(BASE, "base:1")

    assert (ended.returncode, machine.calls()) == (1, [])
    assert "debootstrap failed" in ended.stderr


def test_without_a_node_it_says_which_settings_name_a_cluster(machine: Machine) -> None:
    ended = machine.runs(NODE, "true", NODE_SCRIPTS="/absent")

    assert ended.returncode == 1
    assert ended.stderr.startswith("error: there is no /absent/up.sh: set NODE_SCRIPTS, or KUBECONFIG")


def test_the_agent_of_the_example_is_valid() -> None:
    documents = yaml.safe_load_all((UP.parent / "fleetagent.yaml").read_text(encoding="utf-8"))
    agent = next(document for document in documents if document["kind"] == "FleetAgent")

    FleetAgentSpec.read(agent["spec"])


def test_the_image_names_that_the_script_replaces_stand_in_the_manifests() -> None:
    images = {name: (UP.parent / name).read_text(encoding="utf-8") for name in ("postgres.yaml", "simulators.yaml")}

    assert images["postgres.yaml"].count("image: postgres:17\n") == 1
    assert images["simulators.yaml"].count("image: fleetagent:") == 2
