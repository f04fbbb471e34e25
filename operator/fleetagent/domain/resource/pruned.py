"""What a definition that lacks fields has dropped: the API server takes them and says nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

ROOT = "status"


def pruned(written: Mapping[str, Any], came_back: Mapping[str, Any]) -> tuple[str, ...]:
    """The status fields that were written with a value and are not in what the API server made of it."""
    there = {ROOT, *fields(came_back)}
    return tuple(path for path in fields(written) if path not in there and _parent(path) in there)


def fields(status: Mapping[str, Any]) -> tuple[str, ...]:
    """The path of each field that has a value, each once: those in lists without their number."""
    return tuple(dict.fromkeys(_within(status, ROOT)))


def _within(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            if part is not None:  # in a merge patch: take it away
                yield f"{path}.{name}"
                yield from _within(part, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from _within(item, f"{path}[]")


def _parent(path: str) -> str:
    """What is dropped as a whole is named once, without its parts."""
    return path.rpartition(".")[0].removesuffix("[]")
