"""Makes room before a request: masking first, then a summary that is updated, the digest by code if that fails."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetagent.agent.ask import ask
from fleetagent.agent.counting import doubted, measure
from fleetagent.agent.transcript import Transcript
from fleetagent.domain.conversation.compaction import (
    UNMASKED_RUNS,
    Compaction,
    FeedbackSize,
    RunSize,
    masking_pays,
    plan,
)
from fleetagent.domain.conversation.messages import Kind, Message
from fleetagent.domain.conversation.summary import RunNote, acceptable_summary, digest, summary_request
from fleetagent.domain.conversation.transcript import SUMMARY_HEAD, repair, wire
from fleetagent.domain.conversation.window import CAUTIOUS_RATIO, message_tokens, request_estimate
from fleetagent.domain.records import RunReport
from fleetagent.domain.text import clean
from fleetagent.errors import BadPrompt, ContextFull, ModelFailed, PromptTooLong
from fleetagent.ports import Cluster, Conversation, Meter, Model

_WORTH_IT = 0.75
"""What a request that was refused must shrink to; for less nothing is forgotten."""

MOST_MACHINES_NAMED = 12
"""A small model that must name more than this fails at it, and the digest by code would be all there ever is."""

REMEDY = "lower spec.context.tokenBudget to what the server takes, or serve the model with a longer window"


@dataclass(frozen=True, slots=True)
class Made:
    """A summary, how it was made, and why not by the model if it was not."""

    text: str
    method: str
    because: str | None


class Compact:
    """At most one compaction a run, plus one after the server refused a request for its length."""

    def __init__(self, conversation: Conversation, cluster: Cluster, meter: Meter) -> None:
        self._conversation = conversation
        self._cluster = cluster
        self._meter = meter

    async def __call__(self, transcript: Transcript, model: Model, *, within_a_run: bool) -> None:
        """Make room if the next request needs it. `ContextFull` when there is none to make."""
        await measure(transcript, model, within_a_run=within_a_run)
        budget, projected = transcript.budget, transcript.projected()
        fits = projected <= (budget.within_a_run if within_a_run else budget.before_a_run)
        if fits and (within_a_run or not masking_pays(_maskable(transcript), projected, budget)):
            return
        if not transcript.compacted:
            chosen = _planned(transcript, within_a_run=within_a_run, overflowed=False)
            if chosen is not None and _would_help(transcript, chosen):
                transcript.compacted = True
                await self._carry_out(transcript, model, chosen, projected)
        try:
            _fit_results(transcript, transcript.budget.within_a_run)
        except ContextFull:
            await doubted(transcript)
            raise

    async def after_overflow(self, transcript: Transcript, model: Model, refusal: PromptTooLong) -> None:
        """The server refused the request for its length: make it smaller, whatever we think of it, once a run.

        Its refusal proves that it counts more than we do. `ContextFull` when nothing can be made much smaller.
        """
        before = transcript.projected()
        if transcript.overflowed:
            raise ContextFull(f"{refusal}; {REMEDY}")
        transcript.overflowed = True
        chosen = _planned(transcript, within_a_run=True, overflowed=True)
        if chosen is not None and chosen.projected_after <= _WORTH_IT * max(before, transcript.budget.within_a_run):
            await self._carry_out(transcript, model, chosen, before)
            _fit_results(transcript, transcript.budget.within_a_run)
            return
        most = min(transcript.budget.within_a_run, int(before * _WORTH_IT))
        transcript.shorten_results(most)
        if transcript.projected() > most:
            raise ContextFull(f"{refusal}; {REMEDY}") from refusal

    async def _carry_out(self, transcript: Transcript, model: Model, chosen: Compaction, before: int) -> None:
        leaving = [m for m in transcript.history if _leaves(m, chosen)]
        made: Made | None = None
        if chosen.summarise_runs:
            runs = await self._conversation.notes(transcript.run.agent_id, chosen.summarise_runs)
            made = await self._summary(transcript, model, runs, leaving)
        gone = {m.seq for m in leaving}
        transcript.history = tuple(m for m in transcript.history if m.seq not in gone)
        transcript.masked_before_run = max(transcript.masked_before_run, chosen.masked_before_run)
        transcript.summary = made.text if made else transcript.summary
        transcript.forget_anchors()
        await measure(transcript, model, within_a_run=True)
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
        self, transcript: Transcript, model: Model, runs: Sequence[RunReport], leaving: Sequence[Message]
    ) -> Made:
        budget, count = transcript.budget, transcript.count
        room = int(budget.within_a_run / max(transcript.calibration.ratio, CAUTIOUS_RATIO))
        ids = _machines(runs)
        system, user = summary_request(
            transcript.summary,
            leaving,
            cap_tokens=budget.summary_cap,
            room_tokens=room,
            count=count,
            required_ids=ids,
        )
        try:
            request = transcript.summary_request(system, user)
            reply = await ask(transcript, model, request, request_estimate(request.messages, (), count))
        except (ModelFailed, PromptTooLong, BadPrompt, ContextFull) as error:
            return _digest(transcript, runs, str(error))
        because = acceptable_summary(
            reply, source_tokens=count(user), cap_tokens=budget.summary_cap, required_ids=ids, count=count
        )
        if because is not None:
            return _digest(transcript, runs, because)
        return Made(clean(reply.text).strip(), "Summary", None)

    async def _tell(
        self, transcript: Transcript, method: str, made: Made | None, before: int, after: int, dropped: int
    ) -> None:
        because = f"; the model's summary was not used: {made.because}" if made and made.because else ""
        lost = f"; {dropped} older messages of the operator left the prompt" if dropped else ""
        meta = transcript.subject.agent.metadata
        message = f"run {transcript.run.run_id}: {method}, about {before} → {after} tokens{because}{lost}"
        self._meter.compacted(transcript.subject.key, method)
        await self._cluster.event(
            meta.namespace, meta.name, meta.uid, kind="Normal", reason="Compacted", message=message
        )


def _planned(transcript: Transcript, *, within_a_run: bool, overflowed: bool) -> Compaction | None:
    sizes, fixed = _sizes(transcript)
    return plan(
        sizes,
        fixed_tokens=fixed,
        summary_tokens=transcript.count(SUMMARY_HEAD + transcript.summary) if transcript.summary else 0,
        projected_tokens=transcript.projected(),
        budget=transcript.budget,
        masked_before_run=transcript.masked_before_run,
        within_a_run=within_a_run,
        overflowed=overflowed,
    )


def _maskable(transcript: Transcript) -> float:
    """About what masking would free: cheap to know, for it is asked in every run."""
    history = [m for m in transcript.history if m.run_id >= transcript.masked_before_run]
    newest = sorted({m.run_id for m in history})[-UNMASKED_RUNS:]
    old = (m for m in history if m.kind in {Kind.OBSERVATION, Kind.TOOL_RESULT} and m.run_id not in newest)
    shown = (m.content if m.history_content is None else m.history_content for m in old)
    return sum(map(transcript.count, shown)) * transcript.calibration.ratio


def _would_help(transcript: Transcript, chosen: Compaction) -> bool:
    """Whether the request would fit at all afterwards: no summary is paid for when the fixed part is too large."""
    return chosen.projected_after - transcript.results_projected() <= transcript.budget.within_a_run


def _fit_results(transcript: Transcript, most: int) -> None:
    """Show this run's own tool results as short as it takes. `ContextFull` when even that does not suffice."""
    if transcript.projected() > most:
        transcript.shorten_results(most)
    if (needed := transcript.projected()) > most:
        budget = transcript.budget
        told = "spec.context.tokenBudget is {}: raise it, or shorten spec.instructions"
        if transcript.window is not None:
            told = "the model server's window is {}: serve the model with a longer one"
        raise ContextFull(
            f"the prompt needs about {needed} tokens beside a reply of {budget.reply}, and {told.format(budget.total)}"
        )


def _leaves(message: Message, chosen: Compaction) -> bool:
    if message.seq in chosen.drop_feedback:
        return True
    return message.run_id in chosen.summarise_runs and message.seq not in chosen.keep_feedback


def _sizes(transcript: Transcript) -> tuple[tuple[RunSize, ...], int]:
    """What each finished run adds, as history and masked; and the estimate of all else."""
    rows = repair(transcript.history) if transcript.history else ()
    current = transcript.run.run_id
    full = wire("", rows, current_run=current, masked_before_run=0)[1:]
    masked = wire("", rows, current_run=current, masked_before_run=current)[1:]
    by_run: dict[int, list[tuple[Message, int, int]]] = {}
    count = transcript.count
    for row, as_full, as_masked in zip(rows, full, masked, strict=True):
        tokens = message_tokens(as_full, count), message_tokens(as_masked, count)
        by_run.setdefault(row.run_id, []).append((row, *tokens))
    sizes = tuple(
        RunSize(
            run_id,
            sum(as_full for _, as_full, _ in parts),
            sum(as_masked for _, _, as_masked in parts),
            tuple(FeedbackSize(row.seq, as_full) for row, as_full, _ in parts if row.kind is Kind.FEEDBACK),
        )
        for run_id, parts in by_run.items()
    )
    shown = sum(s.tokens_masked if s.run_id < transcript.masked_before_run else s.tokens_full for s in sizes)
    return sizes, max(transcript.estimate() - shown, 0)


def _machines(runs: Sequence[RunReport]) -> tuple[str, ...]:
    """The machines that these runs rented or ended, the newest: what a summary must not forget."""
    named = dict.fromkeys(a.machine for r in runs for a in r.actions if a.machine is not None)
    return tuple(named)[-MOST_MACHINES_NAMED:]


def _digest(transcript: Transcript, runs: Sequence[RunReport], because: str) -> Made:
    notes = [
        RunNote(r.run_id, r.started_at, r.outcome or "Unknown", r.summary or "", tuple(a.words for a in r.actions))
        for r in runs
    ]
    cap = transcript.budget.summary_cap
    text = digest(notes, transcript.summary, cap_tokens=cap, count=transcript.count)
    return Made(clean(text), "Digest", clean(because, 500))
