"""People with tokens of their own: each may do what RBAC says, and no more."""

from collections.abc import Sequence
from datetime import timedelta

import yaml

from fleetagent.dev.controlplane import ControlPlane
from support.cluster import eventually
from support.manifests import Json

READS = ("get", "list", "watch")
STEERS = (*READS, "patch")
HOUR = timedelta(hours=1)


def a_person(cluster: ControlPlane, home: str, name: str, *, verbs: Sequence[str], namespaces: Sequence[str]) -> str:
    """A ServiceAccount in `home` that may do this with FleetAgents there; its token."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": home}}
    objects = [account, *(each for namespace in namespaces for each in _granted(home, name, verbs, namespace))]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    for namespace in namespaces:
        until_granted(cluster, f"system:serviceaccount:{home}:{name}", verbs[-1], namespace)
    return cluster.token_for(name, home, lifetime=HOUR)


def until_granted(cluster: ControlPlane, user: str, verb: str, namespace: str) -> None:
    """Wait until the API server has heard of a right of theirs: it learns of its own roles by a watch."""
    asked = {"group": "fleetagent.dev", "resource": "fleetagents", "verb": verb, "namespace": namespace}
    eventually(lambda: may(cluster, user, **asked), f"{user} may {verb}")


def may(cluster: ControlPlane, user: str, **attributes: str) -> bool:
    """Whether RBAC lets them: verb, resource, group, namespace and what else a SubjectAccessReview asks for."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(cluster.api.call("POST", path, review)["status"]["allowed"])


def _granted(home: str, name: str, verbs: Sequence[str], namespace: str) -> list[Json]:
    group = "rbac.authorization.k8s.io"
    where = {"name": f"{home}-{name}", "namespace": namespace}
    rule = {"apiGroups": ["fleetagent.dev"], "resources": ["fleetagents"], "verbs": list(verbs)}
    return [
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": where, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": where,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": where["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home}],
        },
    ]
