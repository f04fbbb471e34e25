"""Opens a run's transcript: history from the store, then the operator's words, then the facts."""

from dataclasses import replace

from fleetagent.agent.subject import Subject
from fleetagent.agent.transcript import Transcript
from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.conversation.window import Calibration, Count
from fleetagent.domain.model import JsonObject
from fleetagent.domain.observation import Observation
from fleetagent.domain.prompt import observation_text
from fleetagent.domain.records import Run
from fleetagent.domain.said import MOST_FEEDBACK_CHARS
from fleetagent.domain.schedule import Trigger
from fleetagent.domain.text import clean
from fleetagent.ports import Conversation


class Compose:
    """Makes the transcript that a run begins with."""

    def __init__(
        self, conversation: Conversation, count: Count, tools: tuple[JsonObject, ...], vocabulary: str = ""
    ) -> None:
        self._conversation = conversation
        self._count = count
        self._tools = tools
        self._vocabulary = vocabulary

    async def __call__(self, subject: Subject, run: Run, seen: Observation) -> Transcript:
        """The transcript of this run, its own first messages stored."""
        session = subject.record.session
        transcript = Transcript(
            subject=subject,
            run=run,
            tools=self._tools,
            count=self._count,
            conversation=self._conversation,
            history=await self._conversation.in_prompt(run.session_id),
            summary=session.summary or "",
            masked_before_run=session.masked_before_run,
            calibration=subject.record.calibration.get(subject.endpoint, Calibration()),
            counts=self._counts(subject),
        )
        spoken = [
            Message(run.run_id, Kind.FEEDBACK, "user", clean(p.words or "", MOST_FEEDBACK_CHARS))
            for p in run.calls.pending
            if p.kind is Trigger.FEEDBACK and p.words
        ]
        facts = observation_text(seen, run.run_id, run.calls, subject.spec)
        await transcript.add([*spoken, Message(run.run_id, Kind.OBSERVATION, "user", facts)])
        return transcript

    def _counts(self, subject: Subject) -> Counts:
        """What was told in this session, if by the same server and model, to the same way of estimating."""
        fresh, known = Counts(subject.endpoint, self._vocabulary), subject.record.session.counts
        if known is None or (known.endpoint, known.vocabulary) != (fresh.endpoint, fresh.vocabulary):
            return fresh
        return replace(known, window_tokens=None)  # the server says it again, or it is not true any more
