"""What is being worked for: the agent, its run and what called for it, for whatever is logged or said meanwhile."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

Facts = Mapping[str, str | int]

_FACTS: ContextVar[Facts] = ContextVar("facts", default=MappingProxyType({}))


@contextmanager
def telling(**facts: str | int | None) -> Iterator[None]:
    """In the block, and in the tasks that begin in it, things are about these, as far as they are known."""
    known = {name: fact for name, fact in facts.items() if fact is not None}
    token = _FACTS.set({**_FACTS.get(), **known})
    try:
        yield
    finally:
        _FACTS.reset(token)


def told() -> Facts:
    """What is being worked for here and now; empty outside of all work for an agent."""
    return _FACTS.get()
