"""Makes room before a request: masking first, then a summary that is updated, the digest by code if that fails."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from fleetagent.agent.compose import SUMMARY_HEAD, Transcript
from fleetagent.domain.messages import Kind, Message
from fleetagent.domain.model import JsonObject, ModelRequest, Reply
from fleetagent.domain.transcript import repair, wire
from fleetagent.domain.window import (
    Compaction,
    FeedbackSize,
    RunNote,
    RunSize,
    acceptable_summary,
    digest,
    message_tokens,
    plan,
    summary_request,
)
from fleetagent.errors import BadReply, BadResource, FleetAgentError, PromptTooLong, TryLater
from fleetagent.ports import Cluster, Conversation, Model

log = logging.getLogger(__name__)


class ContextFull(FleetAgentError):  # noqa: N818
    """The next request does not fit the token budget, and nothing is left to leave out."""


@dataclass(frozen=True, slots=True)
class Made:
    """A summary, how it was made, and why not by the model if it was not."""

    text: str
    method: str
    because: str | None
    reply: Reply | None


class Compact:
    """At most one compaction a run, plus one after the server refused a request for its length."""

    def __init__(self, conversation: Conversation, cluster: Cluster) -> None:
        self._conversation = conversation
        self._cluster = cluster

    async def __call__(
        self, transcript: Transcript, model: Model, *, allowed: bool, within_a_run: bool, overflowed: bool = False
    ) -> bool:
        """Make room if the next request needs it; whether it was needed. `ContextFull` when there is none to make."""
        budget, projected = transcript.budget, transcript.projected()
        limit = budget.within_a_run if within_a_run else budget.before_a_run
        if projected <= limit and not overflowed:
            return False
        sizes, fixed = _sizes(transcript)
        summary = transcript.count(SUMMARY_HEAD + transcript.summary) if transcript.summary else 0
        chosen = plan(
            sizes,
            fixed_tokens=fixed,
            summary_tokens=summary,
            projected_tokens=projected,
            budget=budget,
            masked_before_run=transcript.masked_before_run,
            within_a_run=within_a_run,
            overflowed=overflowed,
        )
        if chosen is not None and allowed:
            await self._carry_out(transcript, model, chosen, projected)
            projected = transcript.projected()
        if projected > budget.within_a_run:
            raise ContextFull(
                f"the prompt needs about {projected} tokens with room for a reply of {budget.reply}, "
                f"spec.context.tokenBudget is {budget.total}"
            )
        return chosen is not None and allowed

    async def _carry_out(self, transcript: Transcript, model: Model, chosen: Compaction, before: int) -> None:
        leaving = [m for m in transcript.history if _leaves(m, chosen)]
        made: Made | None = None
        if chosen.summarise_runs:
            made = await self._summary(transcript, model, chosen, leaving)
        gone = {m.seq for m in leaving}
        transcript.history = tuple(m for m in transcript.history if m.seq not in gone)
        transcript.masked_before_run = max(transcript.masked_before_run, chosen.masked_before_run)
        transcript.summary = made.text if made else transcript.summary
        transcript.anchor = None  # it counted what is no longer there
        after = transcript.projected()
        method = made.method if made else "Masked"
        await self._conversation.compact(
            transcript.run,
            method=method,
            because=made.because if made else None,
            masked_before_run=transcript.masked_before_run,
            runs_left=chosen.summarise_runs,
            leaving_seqs=sorted(gone),
            summary=made.text if made else None,
            tokens_before=before,
            tokens_after=after,
        )
        await self._tell(transcript, method, made, before, after, len(chosen.drop_feedback))

    async def _summary(
        self, transcript: Transcript, model: Model, chosen: Compaction, leaving: Sequence[Message]
    ) -> Made:
        budget, count = transcript.budget, transcript.count
        room = int(budget.within_a_run / max(transcript.calibration.ratio, 1.15))
        system, user = summary_request(
            transcript.summary, leaving, cap_tokens=budget.summary_cap, room_tokens=room, count=count
        )
        notes = await self._notes(transcript, chosen)
        try:
            reply = await model.reply(_summary_call(transcript, system, user))
        except (TryLater, BadReply, BadResource, PromptTooLong) as error:
            return Made(self._digest(transcript, notes), "Digest", str(error), None)
        transcript.usage.append(reply.usage)
        because = acceptable_summary(
            reply,
            source_tokens=sum(count(m.content) for m in leaving) + count(transcript.summary),
            cap_tokens=budget.summary_cap,
            required_ids=(),
            count=count,
        )
        if because is not None:
            return Made(self._digest(transcript, notes), "Digest", because, reply)
        return Made(reply.text.strip(), "Summary", None, reply)

    async def _notes(self, transcript: Transcript, chosen: Compaction) -> tuple[RunNote, ...]:
        reports = await self._conversation.notes(transcript.run.agent_id, chosen.summarise_runs)
        return tuple(RunNote(r.run_id, r.started_at, r.outcome or "Unknown", r.summary or "") for r in reports)

    def _digest(self, transcript: Transcript, notes: Sequence[RunNote]) -> str:
        cap = transcript.budget.summary_cap
        return digest(notes, transcript.summary, cap_tokens=cap, count=transcript.count)

    async def _tell(
        self, transcript: Transcript, method: str, made: Made | None, before: int, after: int, dropped: int
    ) -> None:
        because = f"; the model's summary was not used: {made.because}" if made and made.because else ""
        lost = f"; {dropped} older messages of the operator left the prompt" if dropped else ""
        meta = transcript.subject.agent.metadata
        message = f"run {transcript.run.run_id}: {method}, about {before} → {after} tokens{because}{lost}"
        log.info("%s: compacted: %s", transcript.subject.key, message)
        await self._cluster.event(
            meta.namespace, meta.name, meta.uid, kind="Normal", reason="Compacted", message=message
        )


def _leaves(message: Message, chosen: Compaction) -> bool:
    if message.seq in chosen.drop_feedback:
        return True
    return message.run_id in chosen.summarise_runs and message.seq not in chosen.keep_feedback


def _summary_call(transcript: Transcript, system: str, user: str) -> ModelRequest:
    model = transcript.subject.spec.model
    return ModelRequest(
        messages=({"role": "system", "content": system}, {"role": "user", "content": user}),
        tools=(),
        max_output_tokens=transcript.budget.reply,
        timeout=model.timeout,
        may_call_tools=False,
        parameters=model.parameters or {},
    )


def _sizes(transcript: Transcript) -> tuple[tuple[RunSize, ...], int]:
    """What each finished run adds, as history and masked; and the estimate of all else."""
    rows = repair(transcript.history) if transcript.history else ()
    current = transcript.run.run_id
    full = wire("", rows, current_run=current, masked_before_run=0)[1:]
    masked = wire("", rows, current_run=current, masked_before_run=current)[1:]
    by_run: dict[int, list[tuple[Message, JsonObject, JsonObject]]] = {}
    for row, as_full, as_masked in zip(rows, full, masked, strict=True):
        by_run.setdefault(row.run_id, []).append((row, as_full, as_masked))
    count = transcript.count
    sizes = tuple(
        RunSize(
            run_id,
            sum(message_tokens(f, count) for _, f, _ in parts),
            sum(message_tokens(m, count) for _, _, m in parts),
            tuple(FeedbackSize(r.seq, message_tokens(f, count)) for r, f, _ in parts if r.kind is Kind.FEEDBACK),
        )
        for run_id, parts in by_run.items()
    )
    shown = sum(s.tokens_masked if s.run_id < transcript.masked_before_run else s.tokens_full for s in sizes)
    return sizes, max(transcript.estimate() - shown, 0)
