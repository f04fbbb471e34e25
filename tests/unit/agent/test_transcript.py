"""How large the next request will be to the server, and how much it leaves for the answer."""

import asyncio
import math
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetagent.agent.counting import counted, measure
from fleetagent.agent.tools import TOOLS
from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.conversation.transcript import wire
from fleetagent.domain.conversation.window import Anchor, Calibration, message_tokens
from fleetagent.domain.model import RawCall
from fleetagent.domain.records import ActionState, Run
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import ContextFull
from support.fakes import StrictModel, calls, says
from support.memory import Memory
from support.rehearsal import COUNT, Rehearsal, a_tool
from support.transcripts import VOCABULARY, a_reply, answered, opened

REQUEST = Trigger.REQUEST
EVERY_RUN: dict[str, Any] = {"schedule": {"skipUnchanged": False}}


class TestRightAfterAReply:
    @settings(max_examples=60)
    @given(
        st.floats(0.7, 2.9),
        st.lists(st.text(max_size=400), max_size=4),
        st.text(max_size=600),
        st.lists(st.tuples(st.sampled_from(["get_fleet", "search_offers"]), st.text(max_size=80)), max_size=3),
    )
    def test_the_projection_is_the_servers_count_and_the_answer_as_it_will_be_replayed(
        self, factor: float, before: list[str], said: str, asked: list[tuple[str, str]]
    ) -> None:
        async def story() -> None:
            transcript = await opened(Memory())
            await transcript.add([Message(transcript.run.run_id, Kind.NUDGE, "user", text) for text in before])
            reported = int(transcript.estimate() * factor)

            message = await answered(transcript, a_reply(reported, said, *(RawCall(*a) for a in asked)))
            unanswered = transcript.estimate()
            (replayed,) = wire("", [message], current_run=transcript.run.run_id, masked_before_run=0)[1:]
            results = [m for m in transcript.messages() if m["role"] == "tool"]  # calls are answered at once
            added = message_tokens(replayed, COUNT) + sum(message_tokens(m, COUNT) for m in results)

            assert transcript.counts.anchors == (Anchor(reported, unanswered - added),)
            assert transcript.projected() == math.ceil(reported + added * transcript.calibration.ratio)

        asyncio.run(story())

    async def test_it_takes_no_count_of_a_server_to_see_that_a_short_answer_needs_none(self) -> None:
        model = StrictModel()
        model.offers_to_count = True
        transcript = await opened(Memory())
        await answered(transcript, a_reply(transcript.estimate()))

        await measure(transcript, model, within_a_run=True)

        assert model.asked_to_count == 0


@dataclass
class Watched(Memory):
    """Writes down beside each count what would have been projected from what was stored before it."""

    projections: list[tuple[int, int, int]] = field(default_factory=list)

    async def count(
        self, run: Run, *, reported: int | None, estimated: int, counts: Counts, calibration: Calibration
    ) -> None:
        known, anchor = self.calibration.get(counts.endpoint), None
        if self.session.counts is not None:
            anchor = self.session.counts.anchor(estimated, run.run_id)
        if known is not None and anchor is not None and reported is not None:
            self.projections.append((run.run_id, known.project(estimated, anchor), reported))
        await super().count(run, reported=reported, estimated=estimated, counts=counts, calibration=calibration)


def off(projected: int, reported: int) -> float:
    return abs(projected - reported) / reported


@pytest.mark.parametrize("factor", [1.0, 1.3, 1.6])
async def test_within_and_across_runs_of_all_kinds_the_projection_stays_within_two_percent(factor: float) -> None:
    chance, memory = random.Random(3), Watched()  # noqa: S311  # a test that repeats itself

    async def look(_: Any) -> dict[str, Any]:
        rows = [{"id": 33_014_980 + n, "usd_per_hour": 0.4417 + n / 1e4, "rate": 68.25 + n} for n in range(60)]
        return {"instances": rows[: chance.randint(3, 60)]}

    async def read(_: Any) -> dict[str, Any]:
        return {"text": "The host was slow to answer and the operator asked for care. " * chance.randint(1, 40)}

    async def act(desk: Any) -> dict[str, Any]:
        memory.act(desk.run.run_id, ActionState.DONE)
        return {"ok": True, "instance_id": f"90{desk.run.run_id:05d}"}

    tools = (*(a_tool(t.__name__, t) for t in (look, read, act)), *TOOLS)
    model = StrictModel(counts_more=factor)
    on = Rehearsal(model, tools, EVERY_RUN, memory)
    next_prompts: list[tuple[int, int]] = []
    for _ in range(60):
        rounds = chance.choice([[], [["look"]], [["look"], ["act"]], [["read", "look"], ["act", "act"]], [["read"]]])
        model.script = [*(calls(*r) for r in rounds), says("As planned, for the fleet is below its target.")]
        if spoken := chance.random() < 0.2:
            on.memory.say("please " + "be careful " * chance.randint(1, 60))
        told, compactions, asked = memory.session.next_prompt_tokens, len(memory.compactions), len(model.requests)
        await on.run(REQUEST)
        if told is not None and len(memory.compactions) == compactions and not spoken:
            next_prompts.append((told, model.prompt_tokens[asked]))

    all_but_the_first = [p for p in memory.projections if p[0] > 3]
    assert len(all_but_the_first) > 80
    assert max(off(projected, reported) for _, projected, reported in all_but_the_first) <= 0.02
    assert max(off(told, reported) for told, reported in next_prompts[3:]) <= 0.02
    assert sum(off(told, reported) for told, reported in next_prompts) / len(next_prompts) <= 0.01


class TestAcrossRuns:
    async def test_the_first_request_of_a_run_is_projected_from_the_last_count(self) -> None:
        memory = Memory()
        first = await opened(memory)
        await answered(first, a_reply(first.estimate() + 700))

        second = await opened(memory)

        added = second.estimate() - first.counts.anchors[0].estimated
        assert second.projected() == math.ceil(first.counts.anchors[0].reported + added * first.calibration.of_a_tail)

    @pytest.mark.parametrize(
        "spec",
        [{"model": {"baseURL": "http://other.test/v1"}}, {"model": {"name": "another"}}],
        ids=["another server", "another model"],
    )
    async def test_counts_of_another_server_or_model_are_void(self, spec: dict[str, Any]) -> None:
        memory = Memory()
        first = await opened(memory)
        await answered(first, a_reply(int(first.estimate() * 1.5)))

        second = await opened(memory, **spec)

        assert second.counts == Counts(second.subject.endpoint, VOCABULARY)
        assert second.projected() == math.ceil(second.estimate() * 1.15)

    async def test_counts_beside_estimates_of_another_vocabulary_are_void(self) -> None:
        memory = Memory()
        first = await opened(memory)
        await answered(first, a_reply(first.estimate()))

        assert (await opened(memory, "another vocabulary")).counts.anchors == ()

    async def test_a_reset_leaves_the_ratio_and_no_count(self) -> None:
        memory = Memory()
        first = await opened(memory)
        await answered(first, a_reply(first.estimate() * 2))
        await memory.start_session()

        second = await opened(memory)

        assert second.counts.anchors == ()
        assert second.projected() == second.estimate() * 2

    async def test_after_a_compaction_the_guess_is_careful_until_the_next_count(self) -> None:
        transcript = await opened(Memory())
        await answered(transcript, a_reply(transcript.estimate()))

        transcript.forget_anchors()

        assert transcript.projected() == math.ceil(transcript.estimate() * 1.15)


class TestTheRoomForAnAnswer:
    @pytest.mark.parametrize("share", [n / 20 for n in range(20)])
    @pytest.mark.parametrize("ratio", [0.9, 1.3, 2.0])
    async def test_prompt_and_answer_never_pass_the_budget(self, share: float, ratio: float) -> None:
        transcript = await opened(Memory(), context={"tokenBudget": 8_000}, model={"maxOutputTokens": 4_000})
        await answered(transcript, a_reply(int(transcript.estimate() * ratio)))
        room = transcript.budget.total - transcript.projected()
        await transcript.add(
            [Message(1, Kind.NUDGE, "user", "one " * max(int((room - 256 * ratio) * share / ratio), 1))]
        )

        request = transcript.request()

        assert request.most_output_tokens is not None
        assert 256 <= request.max_output_tokens <= request.most_output_tokens
        assert request.max_output_tokens <= transcript.budget.reply == 2_000
        assert transcript.projected() + request.most_output_tokens <= 8_000

    async def test_what_is_shown_shorter_than_it_was_counted_is_in_doubt(self) -> None:
        transcript = await opened(Memory(), context={"tokenBudget": 8_000})
        asked = await answered(transcript, a_reply(transcript.estimate(), "Look.", RawCall("get_fleet", "{}")))
        await transcript.add_results([(asked.tool_calls[0].id, "one " * 3_000)])
        await counted(transcript, a_reply(transcript.estimate()), transcript.estimate())
        assert transcript.request().most_output_tokens == 8_000 - transcript.projected()

        transcript.shorten_results(transcript.projected() - 1_000)

        left = 8_000 - transcript.projected()
        assert left - (transcript.request().most_output_tokens or 0) > 500, "a tenth of both forms, and of what is gone"

    async def test_a_prompt_that_leaves_no_room_is_not_sent(self) -> None:
        transcript = await opened(Memory(), context={"tokenBudget": 8_000})
        await transcript.add([Message(1, Kind.NUDGE, "user", "one " * 8_000)])

        with pytest.raises(ContextFull, match=r"of spec\.context\.tokenBudget and leaves no room for a reply"):
            transcript.request()

    @pytest.mark.parametrize("tokens", range(1_000, 6_600, 400))
    async def test_a_summary_leaves_room_for_itself(self, tokens: int) -> None:
        transcript = await opened(Memory(), context={"tokenBudget": 8_000})

        request = transcript.summary_request("sum up", "one " * tokens)

        assert 256 <= request.max_output_tokens <= 8_000 - tokens * 1.15

    async def test_what_was_never_counted_leaves_less(self) -> None:
        transcript = await opened(Memory(), context={"tokenBudget": 8_000})
        await answered(transcript, a_reply(transcript.estimate()))
        await transcript.add([Message(1, Kind.NUDGE, "user", "one " * 3_000)])

        left = 8_000 - transcript.projected()
        assert left * 0.9 < (transcript.request().most_output_tokens or 0) < left - 250
