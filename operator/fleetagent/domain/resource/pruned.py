"""What a definition that lacks fields has dropped: the API server takes them and says nothing."""

from collections.abc import Iterator, Mapping
from typing import Any


def pruned(written: Mapping[str, Any], came_back: Mapping[str, Any]) -> tuple[str, ...]:
    """The status fields that were written with a value and are not in what the API server made of it."""
    return tuple(dict.fromkeys(_missing(written, came_back, "status")))


def _missing(written: Any, came_back: Any, path: str) -> Iterator[str]:
    if isinstance(written, Mapping):
        there = came_back if isinstance(came_back, Mapping) else {}
        for name, value in written.items():
            if value is None:
                continue  # in a merge patch: take it away
            if name in there:
                yield from _missing(value, there[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(written, list) and isinstance(came_back, list):
        for item, of_it in zip(written, came_back, strict=False):
            yield from _missing(item, of_it, f"{path}[]")
