"""What the worker endpoint answers."""

from dataclasses import dataclass

from fleetagent.domain.records import AgentKey


@dataclass(frozen=True, slots=True)
class Registered:
    """A worker that is known from now on, by the same pair each time it registers."""

    uuid: str
    runner_id: int
    agent: AgentKey


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """How a call was taken. `passed` speaks of the benchmark."""

    agent: AgentKey
    ok: bool
    passed: bool
