"""Where what was built or fetched once is kept: the user's cache, the same for every clone of the repository."""

from collections.abc import Mapping
from pathlib import Path


def in_cache(environ: Mapping[str, str], *parts: str) -> Path:
    """A path below `fleetagent` in $XDG_CACHE_HOME, else in ~/.cache."""
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".cache")
    return Path(base, "fleetagent", *parts)
