"""The operator's account and rights, made from the chart's own rules, for places that have no Helm.

`charts/fleetagent/templates/rbac.yaml` makes the same objects; a test compares the two.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from fleetagent.errors import CannotStart

_Rule = Mapping[str, Sequence[str]]
"""A PolicyRule as Kubernetes writes it: apiGroups, resources, verbs, perhaps resourceNames."""

_RULES_IN_REPOSITORY = Path("charts/fleetagent/files/rbac-rules.yaml")
_PEERING_IN_REPOSITORY = Path("charts/fleetagent/crds/kopf-peerings.yaml")
_PEERING_GROUP = "kopf.dev"
_RBAC_GROUP = "rbac.authorization.k8s.io"


class PeeringRules(BaseModel):
    """What replicas need to find each other; the peering's name stands as PEERING."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: tuple[dict[str, list[str]], ...]
    namespaced: tuple[dict[str, list[str]], ...]


class Rules(BaseModel):
    """What the operator may do: cluster-wide, in each watched namespace, in its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: tuple[dict[str, list[str]], ...]
    namespaced: tuple[dict[str, list[str]], ...]
    home: tuple[dict[str, list[str]], ...]
    peering: PeeringRules


def operator_objects(
    namespace: str, service_account: str, watch_namespaces: Sequence[str] = (), peering: str | None = None
) -> list[dict[str, Any]]:
    """The operator's account, roles and bindings; without namespaces to watch, for the whole cluster."""
    rules = _rules()
    cluster = (*rules.cluster, *rules.namespaced, *_of_peering(rules.peering.cluster, peering))
    namespaced = (*rules.namespaced, *_of_peering(rules.peering.namespaced, peering))
    subject = {"kind": "ServiceAccount", "name": service_account, "namespace": namespace}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": service_account, "namespace": namespace},
        "automountServiceAccountToken": False,
    }
    objects = [account]
    if not watch_namespaces:
        objects += _granted("Cluster", service_account, None, cluster, subject)
    for watched in sorted(set(watch_namespaces)):
        objects += _granted("", service_account, watched, namespaced, subject)
    return objects + _granted("", f"{service_account}-home", namespace, rules.home, subject)


def peering_definitions() -> list[dict[str, Any]]:
    """The kinds of object through which replicas find each other."""
    return list(yaml.safe_load_all(_in_repository(_PEERING_IN_REPOSITORY).read_text(encoding="utf-8")))


def peering_objects(name: str, watch_namespaces: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The peering itself: one in each watched namespace, or one for the whole cluster."""
    made = {"apiVersion": f"{_PEERING_GROUP}/v1", "metadata": {"name": name}}
    if not watch_namespaces:
        return [made | {"kind": "ClusterKopfPeering"}]
    return [
        made | {"kind": "KopfPeering", "metadata": {"name": name, "namespace": watched}}
        for watched in sorted(set(watch_namespaces))
    ]


def _of_peering(rules: Sequence[_Rule], name: str | None) -> list[dict[str, list[str]]]:
    """The rules for the peering of this name; none without one."""
    if name is None:
        return []
    return [
        {key: [name if word == "PEERING" else word for word in words] for key, words in rule.items()} for rule in rules
    ]


def _granted(
    scope: Literal["Cluster", ""],
    name: str,
    namespace: str | None,
    rules: Sequence[_Rule],
    subject: Mapping[str, str],
) -> list[dict[str, Any]]:
    """A role and the binding that gives it to the subject."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return [
        {
            "apiVersion": f"{_RBAC_GROUP}/v1",
            "kind": f"{scope}Role",
            "metadata": metadata,
            "rules": [dict(rule) for rule in rules],
        },
        {
            "apiVersion": f"{_RBAC_GROUP}/v1",
            "kind": f"{scope}RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC_GROUP, "kind": f"{scope}Role", "name": name},
            "subjects": [dict(subject)],
        },
    ]


def _rules() -> Rules:
    return Rules.model_validate(yaml.safe_load(_in_repository(_RULES_IN_REPOSITORY).read_text(encoding="utf-8")))


def _in_repository(file: Path) -> Path:
    """A file of the chart, found upwards from this one, so that the working directory doesn't matter."""
    for folder in Path(__file__).resolve().parents:
        path = folder / file
        if path.is_file():
            return path
    raise CannotStart(f"{file} is not above {Path(__file__).parent}: run this from a checkout")
