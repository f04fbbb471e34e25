"""vast.ai's own command line, to try our market with: fetched and kept in the user's cache, once.

`python -m fleetagent.dev.official_client` fetches it and prints where it is.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from fleetagent.dev.binaries import to_stderr
from fleetagent.dev.cache import in_cache
from fleetagent.dev.packages import install
from fleetagent.errors import CannotStart

LOCK = Path(__file__).parents[3] / "tests" / "peers" / "vastai.lock"
"""In the repository; an installed package has none."""

HOW_TO_GET_IT = "it comes from the Python package index, which pip must reach; see pip's own settings"


def find_official_client(
    environ: Mapping[str, str] = os.environ, *, progress: Callable[[str], None] = to_stderr
) -> Path:
    """The folder with its packages, from our cache, which is filled first if need be."""
    if not LOCK.is_file():
        raise CannotStart("the tests with vast.ai's own client need a clone of the repository")
    cached = cache_folder(environ)
    if not cached.is_dir():
        progress("fetching vast.ai's own client, once")
        try:
            install(LOCK, cached, environ=environ, progress=progress, wheels_only=True)
        except CannotStart as error:
            raise CannotStart(f"there is no official client ({error}): {HOW_TO_GET_IT}") from error
    return cached


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where its packages for this Python are kept, or will be."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}-{sys.platform}"
    return in_cache(environ, "vastai", f"{python}-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}")


if __name__ == "__main__":
    try:
        print(find_official_client())
    except CannotStart as reason:
        sys.exit(f"error: {reason}")
