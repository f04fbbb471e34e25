"""What Flux, Helm and others make of a custom resource: the documented rules of kstatus, in their order."""

from collections.abc import Mapping
from typing import Any


def kstatus(resource: Mapping[str, Any]) -> str:
    """Current, InProgress, Failed or Terminating, as `status.Compute` of cli-utils would say."""
    metadata, status = resource["metadata"], resource.get("status", {})
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    observed = status.get("observedGeneration")
    if observed is not None and observed != metadata["generation"]:
        return "InProgress"
    conditions = [(c["type"], c["status"]) for c in status.get("conditions", ())]
    for condition in conditions:
        if condition == ("Reconciling", "True"):
            return "InProgress"
        if condition == ("Stalled", "True"):
            return "Failed"
    ready = [state for name, state in conditions if name == "Ready"]
    return "Current" if not ready or ready[0] == "True" else "InProgress"
