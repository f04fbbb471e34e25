"""Ask the model, answer its calls, until it is done or a limit is reached."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fleetagent.agent.compact import Compact
from fleetagent.agent.compose import Transcript
from fleetagent.agent.desk import Desk
from fleetagent.agent.toolbox import Toolbox
from fleetagent.domain.messages import Message
from fleetagent.domain.transcript import Call, normalise
from fleetagent.errors import PromptTooLong, TryLater
from fleetagent.ports import Model

MOST_ROUNDS = 12
MOST_SAME_CALLS = 3
CUT_OFF_TWICE = "the model's answer was cut off twice: raise spec.model.maxOutputTokens"


@dataclass(frozen=True, slots=True)
class Ending:
    """How the conversation of a run ended. `verdict_said` is what the model claims; the ledger knows better."""

    done: bool
    text: str
    verdict_said: dict[str, Any] | None
    model_calls: int
    because: str | None = None


class Loop:
    """Bounded in rounds, in repetitions and in time. Every message is stored before the effects that follow from it."""

    def __init__(self, toolbox: Toolbox, compact: Compact, longest: timedelta) -> None:
        self._toolbox = toolbox
        self._compact = compact
        self._longest = longest

    async def converse(self, desk: Desk, transcript: Transcript, model: Model) -> Ending:
        """Until the model answers without a call. `TryLater`, `BadReply`, `BadResource`, `ContextFull` end it early."""
        try:
            async with asyncio.timeout(self._longest.total_seconds()):
                return await self._rounds(desk, transcript, model)
        except TimeoutError as error:
            minutes = int(self._longest.total_seconds() // 60)
            raise TryLater(f"the run took longer than {minutes} min and was ended") from error

    async def _rounds(self, desk: Desk, transcript: Transcript, model: Model) -> Ending:
        compacted, calls_made, cut_off = False, 0, 0
        repeated: Counter[str] = Counter()
        for round_no in range(1, MOST_ROUNDS + 1):
            compacted |= await self._compact(transcript, model, allowed=not compacted, within_a_run=round_no > 1)
            message, calls = await self._ask(transcript, model, round_no)
            calls_made += 1
            if not calls:
                text, said = verdict_in(message.content)
                return Ending(done=True, text=text, verdict_said=said, model_calls=calls_made)
            await transcript.add_results([(c.id, await self._toolbox.answer(desk, c)) for c in calls])
            repeated.update({f"{c.name} {json.dumps(c.arguments, sort_keys=True)}" for c in calls})
            if max(repeated.values()) > MOST_SAME_CALLS:
                return _stuck(calls_made, f"the same call was made {MOST_SAME_CALLS + 1} times")
            cut_off += any(c.problem is not None and "cut off" in c.problem for c in calls)
            if cut_off > 1:
                return _stuck(calls_made, CUT_OFF_TWICE)
        return _stuck(calls_made, f"no end after {MOST_ROUNDS} rounds")

    async def _ask(self, transcript: Transcript, model: Model, round_no: int) -> tuple[Message, tuple[Call, ...]]:
        estimated = transcript.estimate()
        try:
            reply = await model.reply(transcript.request())
        except PromptTooLong:
            await self._compact(transcript, model, allowed=True, within_a_run=True, overflowed=True)
            estimated = transcript.estimate()
            reply = await model.reply(transcript.request())
        await transcript.counted(reply.usage, estimated)
        message, calls = normalise(reply, transcript.run.run_id, round_no)
        await transcript.add([message])
        return message, calls


def _stuck(calls_made: int, because: str) -> Ending:
    return Ending(done=False, text="", verdict_said=None, model_calls=calls_made, because=because)


def verdict_in(text: str) -> tuple[str, dict[str, Any] | None]:
    """The words, and the verdict JSON at their end if there is one."""
    start = text.rfind("{")
    try:
        found = json.loads(text[start:].strip().strip("`").strip()) if start >= 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"action", "state_changed"} & set(found):
        return text.strip(), None
    words = text[:start].strip().removesuffix("```json").removesuffix("```").strip()
    return words, {k: found[k] for k in ("action", "state_changed") if k in found}
