"""The same resource by everything that writes resources: what is no change starts nothing, and nobody's field is taken.

Runs are counted to the last one: each story ends with a request, so whatever was to be started has been.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import yaml

from fleetagent.dev.controlplane import KubectlError
from support.manifests import Json, merged
from support.stage import NAME, Stage
from support.steering import IDLE, called, patch, request_and_wait

REMEMBERED = "kopf.zalando.org/last-handled-configuration"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
GIT = ("--server-side", "--field-manager=argocd-controller")
PEOPLE = ("kubectl", "argocd-controller", "flux", "sed")
"""How the managers' names begin that are not ours."""

Way = Callable[[Stage, Json], None]


def by_kubectl(stage: Stage, manifest: Json, *arguments: str) -> str:
    """Hand the manifest to kubectl."""
    return stage.cluster.kubectl(*arguments, "-f", "-", stdin=yaml.safe_dump(manifest))


def apply(stage: Stage, manifest: Json) -> None:
    by_kubectl(stage, manifest, "apply")


def apply_by_server(stage: Stage, manifest: Json) -> None:
    by_kubectl(stage, manifest, "apply", *GIT)


def apply_by_force(stage: Stage, manifest: Json) -> None:
    by_kubectl(stage, manifest, "apply", "--server-side", "--field-manager=flux", "--force-conflicts")


def replace(stage: Stage, manifest: Json) -> None:
    """Again where we have written in between, as kubectl tells people to."""
    for _ in range(10):
        try:
            by_kubectl(stage, manifest, "replace")
        except KubectlError as error:
            if "the object has been modified" not in str(error):
                raise
        else:
            return
    pytest.fail("there was always somebody faster")


def patched(stage: Stage, manifest: Json) -> None:
    patch(stage, yaml.safe_dump({"spec": manifest["spec"]}))


def edited(stage: Stage, manifest: Json) -> None:
    """As a person who opens the editor, adds a label, and takes it out again."""
    del manifest
    for script in ("s/^  name: porep$/  name: porep\\n  labels: {seen: today}/", "/seen: today/d"):
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("KUBE_EDITOR", f"sed -i '{script}'")
            stage.cluster.kubectl("-n", stage.namespace, "edit", "fleetagent", NAME)


WAYS: tuple[Way, ...] = (apply, apply_by_server, apply_by_force, replace, patched, edited)


def an_idle_agent(stage: Stage, **changes: Any) -> Json:
    """An operator, and an agent that has had its only scheduled run; the manifest, as it stands in Git."""
    stage.start_operator()
    manifest = stage.manifest(**merged({"spec": IDLE}, changes))
    apply_by_server(stage, manifest)
    stage.wait_for_runs(1)
    return manifest


def generation(stage: Stage) -> int:
    found: int = stage.resource()["metadata"]["generation"]
    return found


def wait_for_our_marks(stage: Stage) -> None:
    """The finalizer, and what kopf remembers of the resource."""

    def marked() -> bool:
        meta = stage.resource()["metadata"]
        return FINALIZER in meta.get("finalizers", []) and REMEMBERED in meta.get("annotations", {})

    stage.wait_for(marked, "our marks are there")


def owned_by(stage: Stage, *managers: str) -> list[str]:
    """Every field that these managers own, as a path; without names, what everybody else owns: we."""
    paths: list[str] = []
    for entry in stage.resource()["metadata"]["managedFields"]:
        if entry["manager"].startswith(managers or PEOPLE) is bool(managers):
            paths += _paths(entry["fieldsV1"], "")
    return sorted(set(paths))


def _paths(fields: Json, above: str) -> list[str]:
    paths: list[str] = []
    for name, below in fields.items():
        if name == ".":
            continue
        path = f"{above}/{name.removeprefix('f:')}"
        paths += _paths(below, path) if below else [path]
    return paths


def difference(stage: Stage, manifest: Json, *arguments: str) -> str:
    """What `kubectl diff` shows; empty when there is nothing to do.

    It reads twice, so an agent at work may have reported in between: a difference that is one shows each time.
    """
    shown = ""
    for _ in range(3):
        try:
            return by_kubectl(stage, manifest, "diff", *arguments)
        except KubectlError as error:
            shown = str(error)
    return shown


def test_the_same_manifest_again_is_no_change_and_no_run_whichever_way_it_comes(stage: Stage) -> None:
    manifest = an_idle_agent(stage)
    stage.wait_for(lambda: stage.status().get("observedGeneration") == 1, "it is reported")

    for number, way in enumerate(WAYS):
        for _ in range(3):
            way(stage, manifest)
        request_and_wait(stage, f"after {number}")
        wait_for_our_marks(stage)
        assert generation(stage) == 1, way.__name__

    assert called(stage) == [["Schedule"], *[["Request"]] * len(WAYS)]
    assert stage.status()["observedGeneration"] == 1
    assert difference(stage, manifest, *GIT) == ""


def test_git_that_applies_all_the_time_meets_no_conflict_and_an_agent_at_work_keeps_its_beat(stage: Stage) -> None:
    stage.start_operator()
    manifest = stage.manifest(spec={"schedule": {"interval": "10s", "debounce": {"idle": "30s", "max": "60s"}}})
    while len(called(stage)) < 3 or not stage.market.live():
        apply_by_server(stage, manifest)  # it does not insist: what we write is nothing of its own
        assert difference(stage, manifest, *GIT) == ""
    stage.wait_for_target()
    stage.kill_operator()

    assert generation(stage) == 1
    runs = stage.runs()
    assert all("Schedule" in run["triggers"] for run in runs)
    served = "kind = 'Schedule' AND claimed_by_run IS NOT NULL"
    planned = stage.rows(f"SELECT value::timestamptz AS at FROM triggers WHERE {served} ORDER BY id")  # noqa: S608
    gaps = [(b["at"] - a["at"]).total_seconds() for a, b in pairwise(planned)]
    assert len(gaps) == len(runs) - 1
    assert all(gap > 0 and gap % 10 == 0 for gap in gaps)
    assert set(owned_by(stage, "kopf")) | set(owned_by(stage, "fleetagent")) == set(owned_by(stage))
    assert all(path.startswith("/status/") for path in owned_by(stage, "fleetagent"))
    ours = owned_by(stage)
    finalizers = f'/metadata/finalizers/v:"{FINALIZER}"'
    assert [path for path in ours if not path.startswith("/status/")] == [
        f"/metadata/annotations/{REMEMBERED}",
        finalizers,
    ]
    assert not [path for path in owned_by(stage, *PEOPLE) if path.startswith("/status")]


def test_a_status_that_stands_in_git_is_no_status(stage: Stage) -> None:
    manifest = an_idle_agent(stage)
    request_and_wait(stage, "1")
    with_status = manifest | {"status": {"lastRunID": 99, "lastHandledRequest": "2", "openAlerts": 7}}

    for way in (apply, apply_by_server, apply_by_force, replace):
        way(stage, with_status)
    request_and_wait(stage, "2")

    assert [r["run_id"] for r in stage.runs()] == [1, 2, 3]
    assert stage.status()["lastRunID"] == 3
    assert stage.status()["openAlerts"] == 0


@pytest.mark.parametrize("way", [apply, apply_by_server, replace])
def test_annotations_that_stand_in_git_are_served_once_for_each_change_in_git(stage: Stage, way: Way) -> None:
    manifest = an_idle_agent(stage)

    def say(**annotations: str) -> None:
        said = {f"fleetagent.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
        for _ in range(2):
            way(stage, merged(manifest, {"metadata": {"annotations": said}}))

    def served(field: str, value: str) -> None:
        stage.wait_for(lambda: stage.status().get(field) == value, f"{field} {value}")

    if way is apply:
        stage.cluster.kubectl("-n", stage.namespace, "delete", "fleetagent", NAME)  # by hand from its beginning on
        apply(stage, manifest)
        stage.wait_for_runs(2)
    before = len(called(stage))
    say(requested_at="monday", reset_requested_at="r1")
    served("lastHandledRequest", "monday")
    served("lastHandledReset", "r1")
    sessions = len(stage.rows("SELECT * FROM sessions"))
    say(requested_at="tuesday", reset_requested_at="r1")
    served("lastHandledRequest", "tuesday")
    say()  # taken out of Git
    say(requested_at="tuesday", reset_requested_at="r1")  # and put in again: it was served
    say(requested_at="monday", reset_requested_at="r1")  # a revert is a new value
    served("lastHandledRequest", "monday")
    say(requested_at="the end", reset_requested_at="r1")
    served("lastHandledRequest", "the end")

    assert called(stage)[before:] == [["Request"]] * 4
    assert len(stage.rows("SELECT * FROM sessions")) == sessions
    assert generation(stage) == 1


def test_a_session_named_in_git_is_reset_once_for_each_change_and_starts_no_run(stage: Stage) -> None:
    manifest = an_idle_agent(stage)

    for name in ("monday", "tuesday", "monday"):
        for _ in range(3):
            apply_by_server(stage, merged(manifest, {"spec": {"context": {"session": name}}}))
        stage.wait_for(lambda name=name: stage.status().get("lastHandledSession") == name, f"session {name}")  # type: ignore[misc]
    request_and_wait(stage, "afterwards")

    assert called(stage) == [["Schedule"], ["Request"]]
    assert len(stage.rows("SELECT * FROM sessions")) == 4
    stage.wait_for(lambda: len(stage.events("SessionReset")) == 3, "people are told of each")


def test_a_status_that_is_wiped_comes_back_and_nothing_is_served_again(stage: Stage) -> None:
    an_idle_agent(stage)
    request_and_wait(stage, "X")
    before = stage.status()
    wipe = ("-n", stage.namespace, "patch", "fleetagent", NAME, "--subresource=status", "--type=json", "-p")

    for _ in range(2):
        stage.cluster.kubectl(*wipe, '[{"op": "remove", "path": "/status"}]')
        stage.wait_for(lambda: stage.status().get("lastHandledRequest") == "X", "the status is back")
    request_and_wait(stage, "Y")

    assert called(stage) == [["Schedule"], ["Request"], ["Request"]]
    assert before["lastRunID"] == 2
    assert stage.status()["lastRunID"] == 3


def test_our_marks_that_somebody_takes_off_come_back_and_start_nothing(stage: Stage) -> None:
    an_idle_agent(stage)
    bare = '{"metadata":{"finalizers":null,"annotations":{"%s":null}}}' % REMEMBERED  # noqa: UP031  # braces

    for _ in range(3):
        wait_for_our_marks(stage)
        patch(stage, bare)
    request_and_wait(stage, "afterwards")

    assert called(stage) == [["Schedule"], ["Request"]]
