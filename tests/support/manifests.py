"""FleetAgents as people write them. A test names only what matters to it."""

from collections.abc import Mapping
from typing import Any

from fleetagent.domain.resource import FleetAgent, FleetAgentSpec

Json = dict[str, Any]

ABSENT = object()
"""As a value: leave this field out."""


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    """The base with the changes laid over it, mapping by mapping; `ABSENT` takes a field away."""
    out = dict(base)
    for key, change in changes.items():
        if change is ABSENT:
            out.pop(key, None)
        elif isinstance(change, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merged(out[key], change)
        else:
            out[key] = change
    return out


def a_spec(**changes: Any) -> Json:
    """The least valid spec, with changes laid over it: `a_spec(target={"proofsPerHour": 100})`."""
    least = {
        "target": {"proofsPerHour": 500},
        "model": {"baseURL": "http://model.test/v1", "name": "scripted"},
        "budget": {"fleetUsdPerHour": "4.00"},
        "fleet": {
            "vast": {
                "apiKeySecretRef": {"name": "vast", "key": "api-key"},
                "instance": {"image": "example/curio-prover:latest"},
            }
        },
        "demand": {"static": {"active": True}},
    }
    return merged(least, changes)


def a_manifest(*, name: str = "porep", namespace: str = "default", **changes: Any) -> Json:
    """A valid FleetAgent, with changes laid over it: `a_manifest(spec={"mode": "DryRun"})`."""
    least = {
        "apiVersion": "fleetagent.dev/v1alpha1",
        "kind": "FleetAgent",
        "metadata": {"name": name, "namespace": namespace},
        "spec": a_spec(),
    }
    return merged(least, changes)


def a_parsed_spec(**changes: Any) -> FleetAgentSpec:
    """The spec as the operator sees it."""
    return FleetAgentSpec.read(a_spec(**changes))


def a_fleet_agent(*, name: str = "porep", namespace: str = "default", **changes: Any) -> FleetAgent:
    """The whole resource as the operator sees it: `a_fleet_agent(spec={"mode": "DryRun"})`."""
    stored = {"metadata": {"uid": "0c8f2f5e-0000-4000-8000-000000000001", "generation": 1}}
    return FleetAgent.stored(merged(a_manifest(name=name, namespace=namespace, **stored), changes))
