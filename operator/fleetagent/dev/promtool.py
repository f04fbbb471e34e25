"""Prometheus' own tool for rules, with which the chart's alerts are tested."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from fleetagent.dev.binaries import to_stderr
from fleetagent.dev.cache import in_cache, this_system
from fleetagent.dev.debs import unpacked
from fleetagent.errors import CannotStart

PACKAGE, PROGRAM = "prometheus", "usr/bin/promtool"
HOW_TO_GET_IT = "install Prometheus' promtool, so that it is on PATH; on Debian and Ubuntu it is fetched with apt-get"


def find_promtool(environ: Mapping[str, str] = os.environ, *, progress: Callable[[str], None] = to_stderr) -> Path:
    """The one on $PATH, else one in our cache, which is filled first if need be."""
    if on_path := shutil.which("promtool", path=environ.get("PATH", os.defpath)):
        return Path(on_path)
    cached = cache_folder(environ)
    if not (cached / PROGRAM).exists():
        try:
            unpacked(PACKAGE, PROGRAM, cached, environ=environ, progress=progress)
        except CannotStart as error:
            raise CannotStart(f"there is no promtool ({error}): {HOW_TO_GET_IT}") from error
    return cached / PROGRAM


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the promtool that was fetched for this machine is kept, or will be."""
    return in_cache(environ, "promtool", this_system())
