"""The CustomResourceDefinition, made from the models: what `fleetagent crd` prints and crds/ holds."""

from typing import Any

import yaml

from fleetagent.domain.resource.agent import GROUP, KIND, PLURAL, VERSION
from fleetagent.domain.resource.spec import FleetAgentSpec
from fleetagent.domain.resource.status import NEVER_OBSERVED, FleetAgentStatus
from fleetagent.domain.resource.structural import structural

_HEADER = "# Made by `fleetagent crd` from operator/fleetagent/domain/resource. Change the models, not this file.\n"

_COLUMNS = (
    ("Mode", "string", ".spec.mode", "What the agent may do to the fleet"),
    ("Target", "integer", ".spec.target.proofsPerHour", "Proofs per hour to keep"),
    ("Projected", "number", ".status.fleet.projectedProofsPerHour", "Proofs per hour, machines on their way included"),
    ("Instances", "integer", ".status.fleet.instances", "Machines that bill or may bill"),
    ("USD/h", "string", ".status.fleet.usdPerHour", "Cost of all machines per hour"),
    ("Tokens", "integer", ".status.session.contextTokens", "Tokens of the last request, by the backend's count"),
    ("Last run", "date", ".status.lastRun.startedAt", "Time since the last run began"),
    # No date: that type prints the time since, and calls every moment to come invalid.
    ("Next run", "string", ".status.nextRunAt", "When the next run is due"),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the agent can do its work"),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the resource was created"),
)


def crd() -> dict[str, Any]:
    """The definition as the API server takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["fa"],
            },
            "scope": "Namespaced",
            "versions": [_version()],
        },
    }


def crd_yaml() -> str:
    """The definition as a file, the same bytes each time."""
    return _HEADER + yaml.dump(crd(), Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "description": description}
            for name, kind, path, description in _COLUMNS
        ],
        "schema": {"openAPIV3Schema": _whole()},
    }


def _whole() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "An agent, driven by a language model, that keeps a fleet of rented GPU machines at a proving "
        "rate, within a budget.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(FleetAgentSpec),
            # Its default is there from the first moment, before any operator has written a status.
            "status": structural(FleetAgentStatus) | {"default": {"observedGeneration": NEVER_OBSERVED}},
        },
    }


class _Plain(yaml.SafeDumper):
    """Repeats what occurs twice: a definition with anchors and aliases is hard to read and to diff."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Go's YAML reads a bare `n` or `y` as a boolean, even as a key; PyYAML would not quote it."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if text in {"y", "Y", "n", "N"} else None)


_Plain.add_representer(str, _text)
