"""A token of the shortest lifetime, replaced twice as a kubelet does it: 20 minutes in which each first one expires."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from fleetagent.dev.apiserver import ApiError, ApiServer
from fleetagent.dev.controlplane import ControlPlane
from support.line import Line, a_line
from support.stage import Stage, a_stage
from support.steering import apply_idle, request_and_wait

LIFETIME = timedelta(minutes=10)
REPLACED_AFTER = LIFETIME * 0.8
REFUSED_AFTER = LIFETIME + timedelta(seconds=30)
"""The API server remembers for a few seconds that a token was good."""


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """The whole product."""
    with a_stage(control_plane, namespace, database_url, tmp_path) as ready:
        yield ready


def is_refused(control_plane: ControlPlane, token: str) -> bool:
    """Whether the API server does not know it any more."""
    server = ApiServer(control_plane.api.port, ca=control_plane.ca_path, token=token)
    try:
        server.call("GET", "/version")
        server.call("GET", "/apis/fleetagent.dev/v1alpha1")
    except ApiError as error:
        return error.status == 401
    return False


def let_one_expire(line: Line, control_plane: ControlPlane, number: int) -> None:
    """Serve while a token grows old, is replaced and expires."""
    born, old = time.monotonic(), line.token()
    replaced = False
    while time.monotonic() - born < REFUSED_AFTER.total_seconds():
        if not replaced and time.monotonic() - born > REPLACED_AFTER.total_seconds():
            line.new_token()
            replaced = True
        request_and_wait(line.stage, f"{number}: {time.monotonic() - born:.0f} s")
        assert (line.alive()[0], line.ready()[0]) == (200, 200)
        time.sleep(15)
    assert is_refused(control_plane, old)
    line.proxy.seen.clear()
    line.stage.annotate(reset_requested_at=f"reset {number}")
    request_and_wait(line.stage, f"{number}: afterwards")
    assert old not in {seen.token for seen, status in line.proxy.seen if status != 401}


@pytest.mark.timeout(1800)
def test_tokens_that_expire_are_never_missed(stage: Stage, control_plane: ControlPlane) -> None:
    with a_line(stage, lifetime=LIFETIME) as line:
        line.start_operator(silent_seconds="600")
        apply_idle(stage)

        for number in (1, 2):
            let_one_expire(line, control_plane, number)

        assert len(stage.operators) == 1
        assert stage.operators[-1].poll() is None
        assert len(stage.events("SessionReset")) == 2
