"""What an account may do by its roles, beside what the API server's audit log says that it did."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fleetagent.dev.controlplane import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource; without a namespace in all of them, without names for each object."""

    verb: str
    resource: str
    """With its group, and its subresource if any: `fleetagents.fleetagent.dev/status`."""
    namespace: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        named = f" {', '.join(self.names)}" if self.names else ""
        return f"{self.verb} {self.resource}{named} in {self.namespace or 'the whole cluster'}"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of the account for a resource."""

    verb: str
    resource: str
    namespace: str
    name: str
    status: int

    @property
    def refused(self) -> bool:
        """By RBAC."""
        return self.status == HTTPStatus.FORBIDDEN

    def needs(self, right: Right) -> bool:
        """Whether this right let it pass."""
        return (
            not self.refused
            and (self.verb, self.resource) == (right.verb, right.resource)
            and right.namespace in {"", self.namespace}
            and (not right.names or self.name in right.names)
        )


def rights_of(cluster: ControlPlane, account: str, home: str) -> frozenset[Right]:
    """Each verb of each rule of each role that is bound to the account, as the API server has them now."""
    return frozenset(_rights_of(cluster, account, home))


def _rights_of(cluster: ControlPlane, account: str, home: str) -> Iterator[Right]:
    for kind in ("clusterrolebindings", "rolebindings"):
        for binding in cluster.api.call("GET", f"{RBAC}/{kind}")["items"]:
            subjects = {(s["kind"], s.get("namespace"), s["name"]) for s in binding.get("subjects", ())}
            if ("ServiceAccount", home, account) not in subjects:
                continue
            namespace = binding["metadata"].get("namespace", "")
            for rule in cluster.api.call("GET", _path_of(binding["roleRef"], namespace))["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        for verb in rule["verbs"]:
                            named = tuple(rule.get("resourceNames", ()))
                            yield Right(verb, _named(group, *resource.split("/")), namespace, named)


def _path_of(role: dict[str, str], namespace: str) -> str:
    if role["kind"] == "ClusterRole":
        return f"{RBAC}/clusterroles/{role['name']}"
    return f"{RBAC}/namespaces/{namespace}/roles/{role['name']}"


def asked_by(cluster: ControlPlane, account: str, home: str) -> list[Asked]:
    """What the account asked of resources so far; discovery, which everybody may do, left out."""
    user = f"system:serviceaccount:{home}:{account}"
    lines = cluster.audit_log.read_text().splitlines()
    found: list[dict[str, Any]] = [event for line in lines if user in line and (event := json.loads(line))]
    return [
        Asked(
            event["verb"],
            _named(it.get("apiGroup", ""), it["resource"], it.get("subresource", "")),
            it.get("namespace", ""),
            it.get("name", ""),
            event["responseStatus"]["code"],
        )
        for event in found
        if event["user"]["username"] == user and "responseStatus" in event and (it := event.get("objectRef"))
    ]


def _named(group: str, resource: str, subresource: str = "") -> str:
    return (f"{resource}.{group}" if group else resource) + (f"/{subresource}" if subresource else "")
