"""Annotations as large as the API server takes them."""

import json
from pathlib import Path

from support.stage import NAME, Stage


def test_an_agent_with_a_huge_annotation_is_served_and_can_be_deleted(stage: Stage, tmp_path: Path) -> None:
    stage.start_operator()
    stage.apply()
    stage.wait_for_runs(1)
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps({"metadata": {"annotations": {"fleetagent.dev/message": "x" * 200_000}}}))
    stage.cluster.kubectl(
        "-n", stage.namespace, "patch", "fleetagent", NAME, "--type=merge", "--patch-file", str(patch)
    )
    stage.wait_for(lambda: stage.status().get("lastHandledMessage"), "the message is served")

    stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME, "--wait=false")

    stage.wait_for(lambda: not stage.resource(), "the resource is gone")
    assert stage.market.live() == []
