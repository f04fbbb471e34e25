"""Days of one agent without a cluster or a database: the real engine, a strict server that counts its own way."""

from collections import Counter
from typing import Any

from fleetagent.agent.desk import Desk
from fleetagent.domain.records import ActionState, Outcome
from support.counting_model import CountingModel, Figures
from support.long_memory import LongMemory
from support.months import Beat, Chances, Months, a_summary, call_for
from support.rehearsal import Rehearsal

BUDGET_TOKENS = 30_000
REPLY_TOKENS = 2_048
SPEC = {"context": {"tokenBudget": BUDGET_TOKENS}, "model": {"maxOutputTokens": REPLY_TOKENS}}


class Life:
    """One session from its first run on."""

    def __init__(self, chances: Chances, **more: Any) -> None:
        self.memory = LongMemory()
        self.model = CountingModel(window=BUDGET_TOKENS)
        self.world = Months(chances, self._launched, **more)
        self._on = Rehearsal(self.model, self.world.tools(), SPEC, self.memory, market=self.world)
        self._requests_after = [0]

    async def _launched(self, desk: Desk, call_id: str, machine: str) -> None:
        del call_id
        self.memory.book_action(desk.run.run_id, ActionState.DONE, "launch", machine, None)

    async def pass_by(self, beats: int) -> None:
        """So many runs, five minutes apart."""
        for beat in self.world.beats(beats):
            await self._run(beat)
            self._requests_after.append(len(self.model.asked))

    async def _run(self, beat: Beat) -> None:
        self._on.now, self._on.seen = self.world.now, beat.seen
        self.model.script = list(beat.script)
        self.model.summaries = [a_summary(len(self.memory.compactions))]
        call_for(beat, self.memory.say)
        await self._on.run()

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How the runs ended."""
        return Counter(c.outcome for c in self.memory.concluded.values())

    def requests(self, first_run: int, last_run: int) -> list[Figures]:
        """Those of these runs, both included, summaries aside."""
        return self.model.asked[self._requests_after[first_run - 1] : self._requests_after[last_run]]
