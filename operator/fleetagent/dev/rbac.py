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
_RBAC_GROUP = "rbac.authorization.k8s.io"


class Rules(BaseModel):
    """What the operator may do: cluster-wide, in each watched namespace, in its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: tuple[dict[str, list[str]], ...]
    namespaced: tuple[dict[str, list[str]], ...]
    home: tuple[dict[str, list[str]], ...]


def operator_objects(
    namespace: str, service_account: str, watch_namespaces: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The operator's account, roles and bindings; without namespaces to watch, for the whole cluster."""
    rules = _rules()
    subject = {"kind": "ServiceAccount", "name": service_account, "namespace": namespace}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": service_account, "namespace": namespace},
        "automountServiceAccountToken": False,
    }
    objects = [account]
    if not watch_namespaces:
        objects += _granted("Cluster", service_account, None, (*rules.cluster, *rules.namespaced), subject)
    for watched in sorted(set(watch_namespaces)):
        objects += _granted("", service_account, watched, rules.namespaced, subject)
    return objects + _granted("", f"{service_account}-home", namespace, rules.home, subject)


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
    """The chart's rules, found upwards from this file, so that the working directory doesn't matter."""
    for folder in Path(__file__).resolve().parents:
        path = folder / _RULES_IN_REPOSITORY
        if path.is_file():
            return Rules.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    raise CannotStart(f"{_RULES_IN_REPOSITORY} is not above {Path(__file__).parent}: run this from a checkout")
