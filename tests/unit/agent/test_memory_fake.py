"""The memory that unit tests rely on keeps the promises of the real one."""

from dataclasses import replace

import pytest

from fleetagent.domain.records import AgentRecord, Lease, Run, Spent
from support.conversation_contract import ConversationContract, Side
from support.fleets import NOW
from support.memory import Memory
from support.stores import HELD


class FakeHands:
    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    async def start(self) -> Run:
        return await self.memory.claim(Lease(1, self.memory.token), NOW)

    async def end(self, run: Run, *, quiet: bool) -> None:
        await self.memory.conclude(run, replace(HELD, quiet=quiet))

    async def interrupt(self, run: Run) -> None:
        await self.memory.interrupt(run, "cancelled")

    async def reset(self) -> None:
        await self.memory.start_session()

    async def lose_the_lease(self) -> None:
        self.memory.token += 1

    async def record(self) -> AgentRecord:
        return self.memory.record()

    async def stored(self) -> list[tuple[str, str | None]]:
        return [(r.message.content, r.left) for r in self.memory.rows]

    async def booked(self, run: Run) -> Spent:
        return self.memory.booked[run.run_id]


class TestMemory(ConversationContract):
    @pytest.fixture
    def side(self) -> Side:
        memory = Memory()
        return Side(memory, FakeHands(memory))
