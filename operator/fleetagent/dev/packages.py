"""Python packages of a hash-locked list, installed into a folder of their own, never among ours."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from fleetagent.dev.cache import beside, exit_code_within
from fleetagent.errors import CannotStart

PROGRESS_EVERY_S = 30.0
LAST_LINES = 25


def install(
    requirements: Path, target: Path, *, environ: Mapping[str, str], progress: Callable[[str], None], wheels_only: bool
) -> None:
    """Fill `target` with just what the list names, in one step; another process may do the same meanwhile."""
    with beside(target) as folder:
        made, log = folder / "packages", folder / "log"
        options = ["--no-deps", "--require-hashes", "--disable-pip-version-check", "--no-input", f"--target={made}"]
        options += ["--only-binary=:all:"] if wheels_only else []
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*_pip(environ), "install", *options, f"--requirement={requirements}"],
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                started = time.monotonic()
                while (exit_code := exit_code_within(PROGRESS_EVERY_S, process)) is None:
                    progress(f"  {time.monotonic() - started:4.0f} s")
            finally:
                process.kill()  # we were interrupted; otherwise it has ended already
                process.wait()
        if exit_code:
            last_lines = "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
            raise CannotStart(f"`pip install --requirement {requirements}` failed:\n{last_lines}")
        if not target.is_dir():  # another process may have been faster
            made.rename(target)


def _pip(environ: Mapping[str, str]) -> list[str]:
    """Our own pip, or, since an environment may be made without one, that of another Python, told of ours."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    python = shutil.which("python3", path=environ.get("PATH"))
    if python is None:
        raise CannotStart("there is no pip to install packages with")
    return [python, "-m", "pip", "--python", sys.executable]
