"""Servers that count well, badly, never, or only a part of what they are sent; and those that count when asked."""

from dataclasses import replace
from typing import Any

import pytest

from fleetagent.agent.ask import ask
from fleetagent.agent.counting import measure
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.conversation.window import Calibration
from fleetagent.domain.model import ModelRequest, Reply, Usage
from fleetagent.domain.records import Outcome
from fleetagent.domain.schedule import Trigger
from fleetagent.errors import PromptTooLong
from support.fakes import StrictModel, calls, says
from support.memory import Memory
from support.rehearsal import COUNT, Rehearsal, a_tool
from support.transcripts import a_reply, answered, opened

REQUEST = Trigger.REQUEST
EVERY_RUN: dict[str, Any] = {"schedule": {"skipUnchanged": False}}
SMALL: dict[str, Any] = {"context": {"tokenBudget": 3_000}}
"""Near enough to the fixed prompt for a guess not to do."""


class TestServersThatDoNotCount:
    async def test_the_status_keeps_the_last_real_count_and_estimates_are_marked(self) -> None:
        memory = Memory()
        first = await opened(memory)
        reported = first.estimate() + 50
        await answered(first, a_reply(reported))
        second = await opened(memory)
        await answered(second, a_reply(None))

        assert (memory.session.context_tokens, memory.session.estimated_tokens) == (reported, reported - 50)
        assert memory.session.counts is not None
        assert (memory.session.counts.uncounted, memory.session.counts.anchors) == (True, ())

    @pytest.mark.parametrize("tokens", [None, 10**9], ids=["none", "absurd"])
    @pytest.mark.parametrize("completion", [None, 10**9], ids=["none", "absurd"])
    async def test_what_is_booked_is_an_estimate_and_says_so(self, tokens: int | None, completion: int | None) -> None:
        on = Rehearsal(Uncounting(tokens, completion), spec=EVERY_RUN)
        await on.run()
        ended = await on.run()

        spent = on.memory.booked[2]
        assert spent.tokens_estimated
        assert 1_000 < spent.tokens_in < 5_000
        assert 0 < spent.tokens_out < 100
        assert ended.outcome is Outcome.HELD
        assert on.memory.session.context_tokens is None
        assert on.memory.calibration[ended_by(on)] == Calibration(1.0, 1)

    async def test_an_answer_that_was_not_counted_is_marked_too(self) -> None:
        on = Rehearsal(Uncounting(1_500, None), spec=EVERY_RUN)
        await on.run()

        assert on.memory.booked[1].tokens_in == 1_500
        assert on.memory.booked[1].tokens_estimated

    async def test_a_day_of_absurd_counts_does_not_use_up_the_days_tokens(self) -> None:
        budget = {"budget": {"modelTokensPerDay": 1_000_000}}
        on = Rehearsal(Uncounting(10**9, 10**9), spec={**EVERY_RUN, **budget})

        assert {(await on.run()).outcome for _ in range(20)} == {Outcome.HELD}

    async def test_what_was_counted_is_not_marked(self) -> None:
        on = Rehearsal(StrictModel(says()))
        await on.run(REQUEST)

        assert not on.memory.booked[1].tokens_estimated


class Uncounting(StrictModel):
    """Its usage is what a test says, whatever it was asked."""

    def __init__(self, tokens: int | None, completion: int | None) -> None:
        super().__init__()
        self._usage = Usage(tokens, completion)

    async def reply(self, request: ModelRequest) -> Reply:
        return replace(await super().reply(request), usage=self._usage, text=says().text, calls=())


def ended_by(on: Rehearsal) -> str:
    return f"{on.agent.spec.model.base_url} {on.agent.spec.model.name}"


class Clipping(StrictModel):
    """Reads the newest of a prompt that is longer than it can hold, and counts only that, as Ollama does."""

    clips_at = 10**9

    async def reply(self, request: ModelRequest) -> Reply:
        reply = await super().reply(request)
        return replace(reply, usage=Usage(min(reply.usage.prompt_tokens or 0, self.clips_at), 10))


async def test_a_server_that_cuts_prompts_off_is_found_out_and_believed_again_when_it_does_not() -> None:
    model = Clipping()
    on = Rehearsal(model, (a_tool("look", {"facts": "a host is slow; " * 1_500}),), EVERY_RUN)
    model.script = [says()]
    await on.run(REQUEST)
    learnt = dict(on.memory.calibration)
    model.clips_at = 4_096

    model.script = [calls("look"), says("Held.")]
    ended = await on.run(REQUEST)

    counts = on.memory.session.counts
    assert ended.outcome is Outcome.HELD, "the run's own outcome stays"
    assert counts is not None
    assert counts.clip is not None
    assert counts.clip.reported == on.memory.session.context_tokens == 4_096
    assert counts.clip.projected > 6_000
    assert counts.anchors == ()
    assert on.memory.calibration[ended_by(on)].ratio == pytest.approx(learnt[ended_by(on)].ratio, rel=0.02)

    model.script = [says()]
    await on.run(REQUEST)

    counts = on.memory.session.counts
    assert counts is not None
    assert (counts.clip, len(counts.anchors)) == (None, 1)


class TestExactCounters:
    async def test_none_is_asked_while_the_limit_is_far_away(self) -> None:
        model = StrictModel(counts_more=1.7)
        model.offers_to_count = True

        await measure(await opened(Memory()), model, within_a_run=False)

        assert model.asked_to_count == 0

    async def test_one_is_asked_where_there_is_no_count_and_not_again(self) -> None:
        model = StrictModel(counts_more=1.7)
        model.offers_to_count = True
        on = Rehearsal(model, (a_tool("look", {"facts": "idle"}),), EVERY_RUN | SMALL)
        for _ in range(4):
            model.script = [calls("look"), says()]
            await on.run(REQUEST)

        assert model.asked_to_count == 1

    async def test_its_count_is_what_the_request_is_projected_to(self) -> None:
        model = StrictModel(counts_more=1.7)
        model.offers_to_count = True
        transcript = await opened(Memory(), **SMALL)

        await measure(transcript, model, within_a_run=False)
        reply = await ask(transcript, model, transcript.request(), transcript.estimate())

        assert transcript.projected() == reply.usage.prompt_tokens

    async def test_near_the_limit_a_large_tail_is_counted_and_not_guessed(self) -> None:
        model = StrictModel()
        model.offers_to_count = True
        transcript = await opened(Memory())
        await answered(transcript, a_reply(transcript.estimate()))
        room = transcript.budget.within_a_run - transcript.projected()
        words = "one "
        await transcript.add([Message(1, Kind.NUDGE, "user", words * (room // COUNT(words * 100) * 100 - 50))])
        assert 0 < transcript.budget.within_a_run - transcript.projected() < 2_000

        await measure(transcript, model, within_a_run=True)
        await measure(transcript, model, within_a_run=True)

        assert model.asked_to_count == 1
        assert transcript.counts.anchors[-1].estimated == transcript.estimate()

    @pytest.mark.parametrize("count", [None, 0, 1, 10**9])
    async def test_nonsense_of_a_counter_is_not_believed(self, count: int | None) -> None:
        class Nonsense(StrictModel):
            async def count_tokens(self, request: ModelRequest) -> int | None:
                del request
                return count

        transcript = await opened(Memory())
        await measure(transcript, Nonsense(), within_a_run=False)

        assert transcript.counts.anchors == ()


class TestTheWindow:
    async def test_runs_go_on_within_a_smaller_window_and_it_is_remembered_with_the_session(self) -> None:
        model = StrictModel(says(), window=8_192)
        model.named_window = 8_192
        on = Rehearsal(model)
        ended = await on.run(REQUEST)

        assert ended.outcome is Outcome.HELD
        assert on.memory.session.counts is not None
        assert on.memory.session.counts.window_tokens == 8_192
        model.named_window = None
        model.script = [says()]
        await on.run(REQUEST)
        assert on.memory.session.counts.window_tokens is None, "served anew with a longer one"

    @pytest.mark.parametrize("window", [None, 3, 1_999, 30_000, 262_144])
    async def test_a_window_that_is_no_limit_or_no_window_changes_nothing(self, window: int | None) -> None:
        model = StrictModel()
        model.named_window = window
        transcript = await opened(Memory())

        await measure(transcript, model, within_a_run=False)

        assert (transcript.window, transcript.budget.total) == (None, 30_000)

    async def test_a_refusal_with_the_servers_own_count_says_how_much_too_long_the_request_is(self) -> None:
        transcript = await opened(Memory())
        theirs = transcript.estimate() * 3 + 7
        model = StrictModel(PromptTooLong("too long", limit_tokens=9_000, prompt_tokens=theirs))

        with pytest.raises(PromptTooLong):
            await ask(transcript, model, transcript.request(), transcript.estimate())

        assert (transcript.projected(), transcript.window) == (theirs, 9_000)

    async def test_what_a_refusal_proves_is_learnt_for_the_runs_to_come(self) -> None:
        memory = Memory()
        first = await opened(memory)
        exact = StrictModel(PromptTooLong("too long", prompt_tokens=first.estimate() * 2))
        with pytest.raises(PromptTooLong):
            await ask(first, exact, first.request(), first.estimate())

        assert (await opened(memory)).calibration.ratio == pytest.approx(2.0)

    async def test_a_refusal_without_a_count_proves_that_there_is_more_than_its_window_leaves(self) -> None:
        memory = Memory()
        first = await opened(memory, model={"maxOutputTokens": 512})
        window = first.estimate() * 2 + 512
        with pytest.raises(PromptTooLong):
            await ask(
                first, StrictModel(PromptTooLong("too long", limit_tokens=window)), first.request(), first.estimate()
            )

        assert (await opened(memory)).calibration.ratio == pytest.approx(2.0)
        assert memory.session.context_tokens is None, "no count of the server is made up"

    async def test_a_refusal_that_names_nonsense_proves_nothing(self) -> None:
        memory = Memory()
        first = await opened(memory, model={"maxOutputTokens": 64})
        for limit in (3, 1_999):
            model = StrictModel(PromptTooLong("too long", limit_tokens=limit))
            with pytest.raises(PromptTooLong):
                await ask(first, model, first.request(), first.estimate())

        assert (await opened(memory)).calibration == Calibration()

    async def test_a_refusal_voids_what_was_counted_before(self) -> None:
        transcript = await opened(Memory())
        await answered(transcript, a_reply(transcript.estimate()))
        await transcript.add([Message(1, Kind.NUDGE, "user", "go on")])
        model = StrictModel(PromptTooLong("too long"))

        with pytest.raises(PromptTooLong):
            await ask(transcript, model, transcript.request(), transcript.estimate())

        assert transcript.counts.anchors == ()
