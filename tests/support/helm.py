"""Helm itself, on the repository's chart: what it renders, and releases on a real API server."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fleetagent.dev.helm import find_helm
from fleetagent.settings import Settings

CHART = Path(__file__).parents[2] / "charts" / "fleetagent"
KUBE_VERSION = "1.36"
"""Without a cluster, Helm takes whichever it was built with."""

Values = Mapping[str, Any]
Objects = list[dict[str, Any]]


class HelmError(Exception):
    """Helm refused; the message is what it said."""


@dataclass(frozen=True)
class Helm:
    """Helm as the admin of one cluster, or of none for rendering alone."""

    kubeconfig: Path | None = None
    chart: Path = CHART

    def run(self, *arguments: str | Path, values: Values | None = None) -> str:
        """What Helm prints; `HelmError` with its complaint."""
        given: list[str | Path] = [*arguments, *(["--values", "-"] if values is not None else [])]
        if self.kubeconfig is not None:
            given += ["--kubeconfig", self.kubeconfig]
        done = subprocess.run(
            [find_helm(), *given],
            input=json.dumps(values) if values is not None else "",
            capture_output=True,
            text=True,
            check=False,
            env={name: value for name, value in os.environ.items() if not name.startswith("HELM_")},
        )
        if done.returncode:
            raise HelmError(f"helm {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    @property
    def major(self) -> int:
        """Its version."""
        return int(self.run("version", "--template", "{{ .Version }}").lstrip("v").split(".")[0])

    def rendered(
        self, release: str, namespace: str, values: Values | None = None, *flags: str, hooks: bool = False
    ) -> Objects:
        """The release's objects, with or without the hook of `helm test`."""
        more = [] if hooks else ["--no-hooks"]
        for_cluster = ("--namespace", namespace, "--kube-version", KUBE_VERSION)
        text = self.run("template", release, self.chart, *for_cluster, *more, *flags, values=dict(values or {}))
        return [document for document in yaml.safe_load_all(text) if document]


def the(objects: Objects, kind: str, name: str | None = None) -> dict[str, Any]:
    """The only object of its kind, or of its kind and name."""
    (found,) = [each for each in objects if each["kind"] == kind and name in {None, each["metadata"]["name"]}]
    return found


def pod_spec(objects: Objects) -> dict[str, Any]:
    """The operator's pod."""
    found: dict[str, Any] = the(objects, "Deployment")["spec"]["template"]["spec"]
    return found


def environment(objects: Objects) -> dict[str, str]:
    """What the operator's container is told; empty where a Secret tells it."""
    (container,) = pod_spec(objects)["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


def settings_of(objects: Objects) -> Settings:
    """Its settings; pydantic's error if the chart lets a value through that the operator refuses."""
    told = {name.removeprefix("FLEETAGENT_").lower(): value for name, value in environment(objects).items()}
    return Settings.model_validate({name: value for name, value in told.items() if value} | {"database_url": "any"})


def as_list(objects: Sequence[Mapping[str, Any]]) -> str:
    """The objects as one that kubectl takes."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
