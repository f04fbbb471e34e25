"""Ask the model, answer its calls, until it is done or a limit is reached."""

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fleetagent.agent.ask import BAD_REPLY, ask
from fleetagent.agent.compact import Compact
from fleetagent.agent.counting import counted
from fleetagent.agent.desk import Desk
from fleetagent.agent.progress import Progress
from fleetagent.agent.toolbox import Toolbox
from fleetagent.agent.transcript import Transcript
from fleetagent.domain.conversation.calls import NO_ANSWER, Call, normalise, told_beside
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.model import Reply
from fleetagent.errors import ModelFailed, PromptTooLong
from fleetagent.ports import Model

MOST_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Ending:
    """How the conversation of a run ended. `verdict_said` is what the model claims; the ledger knows better."""

    done: bool
    text: str = ""
    verdict_said: dict[str, bool] | None = None
    because: str | None = None


class Loop:
    """Bounded in rounds, in repetitions and in time. Every message is stored before the effects that follow from it."""

    def __init__(self, toolbox: Toolbox, compact: Compact, longest: timedelta) -> None:
        self._toolbox = toolbox
        self._compact = compact
        self._longest = longest

    async def converse(self, desk: Desk, transcript: Transcript, model: Model) -> Ending:
        """Until the model answers without a call. Errors of the model and of the prompt end it early."""
        limit = asyncio.timeout(self._longest.total_seconds())
        try:
            async with limit:
                return await self._rounds(desk, transcript, model)
        except TimeoutError:
            if not limit.expired():
                raise
            minutes = self._longest.total_seconds() / 60
            return _stuck(f"the run took longer than {minutes:g} min and was ended")

    async def _rounds(self, desk: Desk, transcript: Transcript, model: Model) -> Ending:
        progress = Progress()
        for round_no in range(1, MOST_ROUNDS + 1):
            await self._compact(transcript, model, within_a_run=round_no > 1)
            reply = await self._reply(transcript, model)
            message, calls = normalise(reply, transcript.run.run_id, round_no)
            await transcript.add([message])
            text, said = verdict_in(message.content)
            note = told_beside(reply, has_verdict=said is not None)
            if not calls and note is None:
                return _answered(message, text, said)
            unusable = desk.calls_unusable
            await self._go_on(desk, transcript, progress.within_limit(calls), note)
            because = progress.stuck_after(
                calls,
                cut_off=reply.cut_off,
                unusable=desk.calls_unusable - unusable,
                effects=desk.pulse.launches_this_run + desk.pulse.stops_this_run,
                last=desk.last_unusable,
            )
            if because is not None:
                return _stuck(because)
        return _stuck(f"no end after {MOST_ROUNDS} rounds")

    async def _reply(self, transcript: Transcript, model: Model) -> Reply:
        """The next answer; a request that the server finds too long is made shorter, once a run."""
        estimated = transcript.estimate()
        try:
            reply = await ask(transcript, model, transcript.request(), estimated)
        except PromptTooLong as refusal:
            await self._compact.after_overflow(transcript, model, refusal)
            estimated = transcript.estimate()
            reply = await ask(transcript, model, transcript.request(), estimated)
        await counted(transcript, reply, estimated)
        return reply

    async def _go_on(self, desk: Desk, transcript: Transcript, calls: tuple[Call, ...], note: str | None) -> None:
        """Answer the calls in order, then say what of the answer was no call; that is no quiet run either."""
        if calls:
            await transcript.add_results([(c.id, await self._toolbox.answer(desk, c)) for c in calls])
        if note is not None:
            desk.tools_failed += 1
            if not calls:
                desk.last_unusable = note
            await transcript.add([Message(transcript.run.run_id, Kind.NUDGE, "user", f"({note})")])


def _answered(message: Message, text: str, said: dict[str, bool] | None) -> Ending:
    if message.content == NO_ANSWER:
        raise ModelFailed(
            BAD_REPLY, "the model answered with nothing, or with thoughts alone: neither words nor a call"
        )
    return Ending(done=True, text=text, verdict_said=said)


def _stuck(because: str) -> Ending:
    return Ending(done=False, because=because)


def verdict_in(text: str) -> tuple[str, dict[str, bool] | None]:
    """The words, and the verdict JSON at their end if there is one; nothing but true and false counts in it."""
    start = text.rfind("{")
    found: Any = None
    if start >= 0:
        try:
            found = json.loads(text[start:].strip().strip("`").strip())
        except (ValueError, RecursionError):
            found = None
    if not isinstance(found, dict) or not {"action", "state_changed"} & set(found):
        return text.strip(), None
    words = text[:start].strip().removesuffix("```json").removesuffix("```").strip()
    said = {key: found[key] for key in ("action", "state_changed") if isinstance(found.get(key), bool)}
    return words, said or None
