"""What a test of the conversation's contract does beside it, on the stores in Postgres."""

from fleetagent.domain.records import AgentRecord, Lease, Run, Spent
from support.stores import Process


class RealHands:
    """See `Hands`; `other` is a second process that may take over."""

    def __init__(self, process: Process, other: Process) -> None:
        self.process, self.other = process, other

    async def start(self) -> Run:
        return await self.process.start()

    async def end(self, run: Run, *, quiet: bool) -> None:
        await self.process.conclude(run, quiet=quiet)

    async def interrupt(self, run: Run) -> None:
        await self.process.runs.interrupt(run, "cancelled")

    async def reset(self) -> None:
        owner = Lease(
            (await self.record()).id, (await self.process.rows("SELECT lease_token FROM agents"))[0]["lease_token"]
        )
        await self.process.agents.start_session(owner, {})

    async def lose_the_lease(self) -> None:
        await self.process.rows("UPDATE agents SET lease_until = now() - interval '1 s' RETURNING id")
        assert await self.other.agents.take_lease((await self.record()).id) is not None

    async def record(self) -> AgentRecord:
        return await self.process.agent()

    async def stored(self) -> list[tuple[str, str | None]]:
        rows = await self.process.rows("SELECT content, left_prompt_because FROM messages ORDER BY session_id, seq")
        return [(r["content"], r["left_prompt_because"]) for r in rows]

    async def booked(self, run: Run) -> Spent:
        rows = {r["run_id"]: r for r in await self.process.rows("SELECT * FROM runs")}
        found = Spent(
            *(rows[run.run_id][n] for n in ("model_calls", "tokens_in", "tokens_out", "tokens_cached", "usd"))
        )
        spend = (await self.process.rows("SELECT * FROM spend WHERE kind = 'model'"))[0]
        assert (spend["tokens"], spend["usd"]) == (found.tokens_in + found.tokens_out, found.usd)
        return found
