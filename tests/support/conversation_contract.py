"""What every `ports.Conversation` promises: the one in Postgres, and the one that unit tests rely on."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import pytest

from fleetagent.domain.conversation.counts import Clip, Counts
from fleetagent.domain.conversation.messages import Kind, Left, Message, ToolCall
from fleetagent.domain.conversation.window import Anchor, Calibration
from fleetagent.domain.records import AgentRecord, Run, Spent
from fleetagent.errors import LeaseLost
from fleetagent.ports import Conversation

COST = Spent(1, 1_000, 50, 10, Decimal("0.5"))
OTHER = ToolCall("r1_1_1", "act", '{"invalid_arguments":"(1"}', original="act [1")
A = Counts("a b", "v")
B = Counts("c d", "v", 7, (Anchor(800, 790), Anchor(812, 800)), Anchor(812, 800), 8_192, Clip(400, 800), uncounted=True)


class Hands(Protocol):
    """What a test of the contract does beside the conversation itself."""

    async def start(self) -> Run: ...
    async def end(self, run: Run, *, quiet: bool) -> None: ...
    async def interrupt(self, run: Run) -> None: ...
    async def reset(self) -> None: ...
    async def lose_the_lease(self) -> None: ...
    async def record(self) -> AgentRecord: ...
    async def stored(self) -> list[tuple[str, str | None]]: ...
    async def booked(self, run: Run) -> Spent: ...


@dataclass(frozen=True)
class Side:
    """One implementation and the hands for it."""

    conversation: Conversation
    hands: Hands


def said(run: Run, text: str, kind: Kind = Kind.OBSERVATION, **more: Any) -> Message:
    role = {Kind.REPLY: "assistant", Kind.TOOL_RESULT: "tool"}.get(kind, "user")
    return Message(run.run_id, kind, role, text, **more)


async def compact(side: Side, run: Run, **changes: Any) -> None:
    usual: dict[str, Any] = {
        "method": "Summary",
        "because": None,
        "masked_before_run": 0,
        "runs_left": [],
        "leaving_seqs": [],
        "summary": None,
        "tokens_before": 900,
        "tokens_after": 300,
    }
    await side.conversation.compact(run, **{**usual, **changes})


class ConversationContract:
    """Inherit and give a fixture `side`."""

    async def shown(self, side: Side) -> list[str]:
        session = (await side.hands.record()).session
        found = [m.content for m in await side.conversation.in_prompt(session.id)]
        assert session.messages_in_prompt == len(found)
        return found

    async def test_messages_come_back_as_they_were_stored_in_their_order(self, side: Side) -> None:
        run = await side.hands.start()
        asking = said(run, ".", Kind.REPLY, tool_calls=(ToolCall("r1_1_0", "look", '{"a":"ü"}'), OTHER))
        result = said(run, "long", Kind.TOOL_RESULT, tool_call_id="r1_1_0", history_content="l", tokens=7)

        await side.conversation.append(run, [said(run, "facts"), asking])
        await side.conversation.append(run, [])
        await side.conversation.append(run, [result])

        found = await side.conversation.in_prompt(run.session_id)
        assert [m.seq for m in found] == [1, 2, 3]
        assert found[1].tool_calls == asking.tool_calls
        assert (found[2].tool_call_id, found[2].history_content, found[2].tokens) == ("r1_1_0", "l", 7)

    async def test_quiet_and_interrupted_runs_leave_the_prompt_and_stay_in_the_audit(self, side: Side) -> None:
        for text in ("kept", "quiet", "interrupted"):
            run = await side.hands.start()
            await side.conversation.append(run, [said(run, text)])
            if text == "interrupted":
                await side.hands.interrupt(run)
            else:
                await side.hands.end(run, quiet=text == "quiet")

        assert await self.shown(side) == ["kept"]
        assert await side.hands.stored() == [("kept", None), ("quiet", Left.QUIET), ("interrupted", Left.INTERRUPTED)]

    async def test_a_compaction_takes_messages_out_and_remembers_the_summary(self, side: Side) -> None:
        run = await side.hands.start()
        await side.conversation.append(run, [said(run, "old"), said(run, "words", Kind.FEEDBACK), said(run, "new")])

        await compact(side, run, leaving_seqs=[1], summary="Fleet\nnone", masked_before_run=4)
        await compact(side, run, method="Masked", masked_before_run=2)

        session = (await side.hands.record()).session
        assert (session.compactions, session.summary, session.masked_before_run) == (2, "Fleet\nnone", 4)
        assert await self.shown(side) == ["words", "new"]
        assert (await side.hands.stored())[0] == ("old", Left.COMPACTED)

    async def test_why_a_message_left_is_never_rewritten(self, side: Side) -> None:
        quiet = await side.hands.start()
        await side.conversation.append(quiet, [said(quiet, "nothing to do")])
        await side.hands.end(quiet, quiet=True)

        await compact(side, await side.hands.start(), leaving_seqs=[1])

        assert await side.hands.stored() == [("nothing to do", Left.QUIET)]

    async def test_counts_and_ratios_are_remembered(self, side: Side) -> None:
        run = await side.hands.start()

        await side.conversation.count(run, reported=None, estimated=700, counts=A, calibration=Calibration())
        assert (await side.hands.record()).session.estimated_tokens == 700
        await side.conversation.count(
            run, reported=812, estimated=800, counts=A, calibration=Calibration(1.015, 4, 0.98)
        )
        await side.conversation.count(run, reported=None, estimated=900, counts=B, calibration=Calibration(2.0, 1))

        record = await side.hands.record()
        assert (record.session.context_tokens, record.session.estimated_tokens) == (812, 800), "the last real count"
        assert record.session.counts == B
        assert record.calibration == {"a b": Calibration(1.015, 1, 0.98), "c d": Calibration(2.0, 1)}

    async def test_a_compaction_voids_what_had_been_counted_before_it(self, side: Side) -> None:
        run = await side.hands.start()
        await side.conversation.count(run, reported=812, estimated=800, counts=B, calibration=Calibration())

        await compact(side, run, method="Masked", masked_before_run=2)

        assert (await side.hands.record()).session.counts == B.without_anchors()

    async def test_a_reset_archives_the_conversation_and_the_next_one_begins_empty(self, side: Side) -> None:
        run = await side.hands.start()
        await side.conversation.append(run, [said(run, "old")])
        await compact(side, run, summary="Fleet\nnone")
        await side.hands.reset()

        assert await self.shown(side) == []
        assert await side.hands.stored() == [("old", Left.RESET)]
        session = (await side.hands.record()).session
        assert (session.summary, session.compactions, session.context_tokens) == (None, 0, None)

    @pytest.mark.parametrize("how", ["reset", "lost lease"])
    async def test_late_writes_reach_nothing(self, side: Side, how: str) -> None:
        run = await side.hands.start()
        await side.conversation.append(run, [said(run, "early")])
        await (side.hands.reset() if how == "reset" else side.hands.lose_the_lease())

        for write in (
            side.conversation.append(run, [said(run, "late")]),
            compact(side, run, leaving_seqs=[1], summary="late"),
            side.conversation.count(
                run, reported=1, estimated=1, counts=Counts("late", "v"), calibration=Calibration()
            ),
        ):
            with pytest.raises(LeaseLost):
                await write

        assert [text for text, _ in await side.hands.stored()] == ["early"]
        assert "late" not in (await side.hands.record()).calibration

    async def test_what_was_spent_is_booked_also_when_the_session_was_reset(self, side: Side) -> None:
        run = await side.hands.start()
        await side.conversation.book(run, COST)
        await side.hands.reset()
        await side.conversation.book(run, COST)

        assert await side.hands.booked(run) == COST + COST

    async def test_notes_tell_how_runs_ended(self, side: Side) -> None:
        run = await side.hands.start()
        await side.hands.end(run, quiet=False)

        notes = await side.conversation.notes(run.agent_id, [run.run_id, 99])

        assert [(n.run_id, n.outcome, n.summary) for n in notes] == [(run.run_id, "Held", "held")]
