"""Ask the model, answer its calls, until it is done or a limit is reached."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fleetagent.agent.ask import BAD_REPLY, ask
from fleetagent.agent.compact import Compact
from fleetagent.agent.desk import Desk
from fleetagent.agent.toolbox import Toolbox
from fleetagent.agent.transcript import Transcript
from fleetagent.domain.calls import CUT_OFF, NO_ANSWER, Call, normalise
from fleetagent.domain.messages import Kind, Message
from fleetagent.domain.model import Reply
from fleetagent.errors import ModelFailed, PromptTooLong
from fleetagent.ports import Model

MOST_ROUNDS = 12
MOST_SAME_CALLS = 3
MOST_CUT_OFF = 1
CUT_OFF_TWICE = "the model's answer was cut off twice: raise spec.model.maxOutputTokens"


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
        times_cut_off = 0
        made: Counter[str] = Counter()
        for round_no in range(1, MOST_ROUNDS + 1):
            await self._compact(transcript, model, within_a_run=round_no > 1)
            reply = await self._reply(transcript, model)
            message, calls = normalise(reply, transcript.run.run_id, round_no)
            await transcript.add([message])
            if not calls and not reply.cut_off:
                return _answered(message)
            times_cut_off += reply.cut_off
            await self._go_on(desk, transcript, calls)
            if times_cut_off > MOST_CUT_OFF:
                return _stuck(CUT_OFF_TWICE)
            made.update({f"{c.name} {json.dumps(c.arguments, sort_keys=True)}" for c in calls})
            if made and max(made.values()) > MOST_SAME_CALLS:
                return _stuck(f"the same call was made {MOST_SAME_CALLS + 1} times")
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
        await transcript.counted(reply, estimated)
        return reply

    async def _go_on(self, desk: Desk, transcript: Transcript, calls: tuple[Call, ...]) -> None:
        """Answer the calls; an answer that was cut off before it had any is answered as well."""
        if calls:
            await transcript.add_results([(c.id, await self._toolbox.answer(desk, c)) for c in calls])
        else:
            await transcript.add([Message(transcript.run.run_id, Kind.NUDGE, "user", f"({CUT_OFF})")])


def _answered(message: Message) -> Ending:
    if message.content == NO_ANSWER:
        raise ModelFailed(BAD_REPLY, "the model answered with thoughts alone: neither words nor a call")
    text, said = verdict_in(message.content)
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
