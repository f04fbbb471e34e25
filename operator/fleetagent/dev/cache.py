"""What is built or fetched once: where it is kept, the same for all clones of the repository, and how it gets there."""

import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = "unfinished-"


def in_cache(environ: Mapping[str, str], *parts: str) -> Path:
    """A path below `fleetagent` in $XDG_CACHE_HOME, else in ~/.cache."""
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".cache")
    return Path(base, "fleetagent", *parts)


def this_system() -> str:
    """What a program is fetched for: the distribution, its version and the processor."""
    system = platform.freedesktop_os_release() if sys.platform == "linux" else {}
    return f"{system.get('ID', sys.platform)}-{system.get('VERSION_ID', '')}-{platform.machine()}"


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """A folder on the file system of `target`, which is filled there and moved in one step: nobody finds half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=UNFINISHED) as folder:
        yield Path(folder)


def exit_code_within(seconds: float, process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> int | None:
    """How it ended; None while it goes on, so that somebody can say so meanwhile."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
