"""The two floors: least operators that POST to a URL when the annotation changes."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.world import NAMESPACE, Annotator, say

from support.stage import ACCOUNT, NAME, Stage

FLOORS = Path(__file__).parent / "floors"
END_SECONDS = 15.0
READY_SECONDS = 60.0
LOOKS_AFTER_SECONDS = 0.06  # later than a floor usually needs, so that looking does not slow it down


def commands() -> dict[str, list[str]]:
    """Of both floors, by name; without Go only the Python one."""
    quiet = ["--standalone", "--quiet", "--namespace", NAMESPACE]
    found = {"kopf": [sys.executable, "-m", "kopf", "run", *quiet, str(FLOORS / "kopf_floor.py")]}
    if (program := _controller_floor()) is not None:
        found["controller-runtime"] = [str(program)]
    else:
        say("no Go: the controller-runtime floor is left out")
    return found


def _controller_floor() -> Path | None:
    """Built once into the user's cache; None where there is no Go."""
    module = FLOORS / "controller"
    sources = b"".join((module / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = base / "fleetagent" / "bench" / hashlib.sha256(sources).hexdigest()[:12] / "controller-floor"
    if not program.exists():
        beside_python = str(Path(sys.executable).parent)
        go = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", os.defpath), beside_python]))
        if go is None:
            return None
        say("building the controller-runtime floor, once: about a minute")
        program.parent.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(f".{os.getpid()}")
        variables = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        build = [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(unfinished), "."]
        subprocess.run(build, cwd=module, env=variables, check=True)
        unfinished.replace(program)
    return program


@contextmanager
def running(command: list[str], stage: Stage, sink: str) -> Iterator[subprocess.Popen[bytes]]:
    """The floor as a process, under the same account as our operator; ended when the block ends."""
    settings: Mapping[str, str] = {
        "KUBECONFIG": str(stage.cluster.kubeconfig_for(ACCOUNT, stage.home)),
        "NAMESPACE": NAMESPACE,
        "SINK": sink,
    }
    name = f"floor-{time.monotonic_ns()}.log"
    with (stage.folder / name).open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    except Exception:
        say((stage.folder / name).read_text(errors="replace")[-2000:])
        raise
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], stage: Stage, annotator: Annotator, name: str = NAME) -> None:
    """Until it has told of an annotation for the first time."""
    deadline = time.monotonic() + READY_SECONDS
    while sample(stage, annotator, 1.0, name) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the floor does not answer")


def sample(stage: Stage, annotator: Annotator, within_s: float, name: str = NAME) -> float | None:
    """Seconds from sending an annotation to its arrival at the sink; None when it does not arrive in time."""
    value, last = f"bench-{uuid.uuid4().hex}", requests_so_far(stage)
    sent_at = annotator.request_run(name, value)
    time.sleep(LOOKS_AFTER_SECONDS)
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for request in stage.model.requests(after=last):
            if request["body"] == value:
                return float(request["received_at"]) - sent_at
        time.sleep(0.03)
    return None


def requests_so_far(stage: Stage) -> int:
    """The number of the newest request at the model server."""
    count: int = stage.model.get("state")["requests"]
    return count
