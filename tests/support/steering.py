"""An agent that does nothing by itself, so that a test sees exactly the runs that it calls for."""

import json
from typing import Any, cast

import kopf

from fleetagent.entrypoints.handlers import Remembered
from support.manifests import Json, merged
from support.stage import NAME, Stage

IDLE = {"target": {"proofsPerHour": 0}, "schedule": {"interval": "1h", "debounce": {"idle": "1s", "max": "10s"}}}


def apply_idle(stage: Stage, **spec: Any) -> None:
    """Apply an agent without a target that is scheduled once an hour, and wait for its first run."""
    stage.apply(spec=merged(IDLE, spec))
    stage.wait_for_runs(1)
    assert called(stage) == [["Schedule"]]


def called(stage: Stage) -> list[list[str]]:
    """What each run was called for, oldest run first."""
    return [run["triggers"] for run in stage.runs()]


def request_and_wait(stage: Stage, value: str) -> None:
    """Ask for a run and wait until it is reported: whatever was to happen before it has happened."""
    stage.annotate(requested_at=value)
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == value, f"request {value} is served")


def request_quickly(stage: Stage, value: str, name: str = NAME) -> Json:
    """Ask for a run by one call, without the tenth of a second that kubectl takes; the resource as it is then."""
    return patch_quickly(stage, {"metadata": {"annotations": {"fleetagent.dev/requested-at": value}}}, name)


def hold_model(stage: Stage) -> None:
    """From now on every request to the model waits."""
    stage.model.put("hold")


def wait_until_held(stage: Stage, runs: int) -> None:
    """Wait until so many runs have begun and the newest one waits for the model."""

    def held() -> bool:
        return len(stage.runs()) == runs and stage.model.get("state")["held"] > 0

    stage.wait_for(held, f"run {runs} waits for the model")


def release_model(stage: Stage) -> None:
    """Let the model answer."""
    stage.model.delete("hold")


def prompts(stage: Stage) -> list[list[Json]]:
    """The messages of each request that reached the model, oldest first."""
    return [request["body"]["messages"] for request in stage.model.requests()]


def times_said(messages: list[Json], words: str) -> int:
    """How often exactly these words stand in a prompt as a message of their own."""
    return sum(m["role"] == "user" and m["content"] == words for m in messages)


def patch(stage: Stage, body: str, *more: str) -> None:
    """Merge-patch the resource."""
    stage.cluster.kubectl("-n", stage.namespace, "patch", "fleetagent", NAME, "--type=merge", "-p", body, *more)


def patch_quickly(stage: Stage, body: Json, name: str = NAME) -> Json:
    """The same by one call."""
    path = f"/apis/fleetagent.dev/v1alpha1/namespaces/{stage.namespace}/fleetagents/{name}"
    patched: Json = stage.cluster.api.call("PATCH", path, body)
    return patched


def kopf_has_caught_up(stage: Stage) -> bool:
    """Whether kopf's own note, an annotation, is that of the resource as it is now: this has been handed over."""
    resource = stage.resource()
    note = resource["metadata"]["annotations"].get("kopf.zalando.org/last-handled-configuration", "null")
    return bool(json.loads(note) == Remembered().build(body=kopf.Body(cast("kopf.RawBody", resource))))
