"""What is applied to the API server: the definition, the operator's account and rights, Secrets, an agent."""

import base64
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.rbac import operator_objects
from fleetagent.domain.resource import GROUP, PLURAL, VERSION, crd
from fleetagent.errors import CannotStart

HOME = "fleetagent-system"
SERVICE_ACCOUNT = "fleetagent"
PERSON = "you"
"""Whoever looks at the page of `fleetagent dev`: they may read and steer FleetAgents, and nothing else."""
AGENT_NAMESPACE = "default"  # kubectl needs no -n there
MARKET_KEY = "sim-key"
ESTABLISHED_WITHIN = "30s"
LISTED_WITHIN_S = 30.0

_EXAMPLE = Path("examples/dev.yaml")

SECRETS: Mapping[str, Mapping[str, str]] = {
    "vast": {"api-key": MARKET_KEY},
    "prover-env": {"CUZK_PARTITION_WORKERS": "7"},
}


def prepare(control_plane: ControlPlane) -> Path:
    """Make everything that the operator needs; a kubeconfig of its ServiceAccount, which is at home in `HOME`."""
    definition = crd()
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    apply(control_plane, [definition, home, *operator_objects(HOME, SERVICE_ACCOUNT), *person_objects(), *secrets()])
    name = f"crd/{definition['metadata']['name']}"
    control_plane.kubectl("wait", "--for=condition=Established", f"--timeout={ESTABLISHED_WITHIN}", name)
    # Established comes a moment before the first list is answered; the operator would log the refusals.
    path, deadline = f"/apis/{GROUP}/{VERSION}/{PLURAL}", time.monotonic() + LISTED_WITHIN_S
    while not control_plane.api.exists(path):
        if time.monotonic() > deadline:
            raise CannotStart(f"the API server does not list {PLURAL}.{GROUP} after {LISTED_WITHIN_S:g} s")
        time.sleep(0.05)
    return control_plane.kubeconfig_for(SERVICE_ACCOUNT, HOME)


def person_objects() -> list[dict[str, Any]]:
    """The account by which the page asks, where nobody has to log in."""
    group = "rbac.authorization.k8s.io"
    verbs = ["get", "list", "watch", "patch"]
    role = {"apiGroups": [GROUP], "resources": [PLURAL], "verbs": verbs}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": PERSON, "namespace": HOME}},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": PERSON}, "rules": [role]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": PERSON},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": PERSON},
            "subjects": [{"kind": "ServiceAccount", "name": PERSON, "namespace": HOME}],
        },
    ]


def apply(control_plane: ControlPlane, objects: Sequence[Mapping[str, Any]]) -> None:
    """As `kubectl apply` does, so that people can apply changes later."""
    whole = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(whole))


def secrets() -> list[dict[str, Any]]:
    """The Secrets that the example names."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": AGENT_NAMESPACE},
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in content.items()},
        }
        for name, content in SECRETS.items()
    ]


def example_agent(*, model_url: str, market_url: str) -> dict[str, Any]:
    """`examples/dev.yaml` with these addresses in it."""
    agent: dict[str, Any] = yaml.safe_load(_example().read_text(encoding="utf-8"))
    agent["metadata"]["namespace"] = AGENT_NAMESPACE
    agent["spec"]["model"]["baseURL"] = model_url
    agent["spec"]["fleet"]["vast"]["baseURL"] = market_url
    return agent


def _example() -> Path:
    for folder in Path(__file__).resolve().parents:
        if (folder / _EXAMPLE).is_file():
            return folder / _EXAMPLE
    raise CannotStart(f"{_EXAMPLE} is not above {Path(__file__).parent}: run this from a checkout")
