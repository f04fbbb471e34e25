"""What a run learns of its model server's counts, and when it asks the server to count."""

import logging
from dataclasses import replace

from fleetagent.agent.transcript import Transcript
from fleetagent.domain.conversation.counts import Worth, believable
from fleetagent.domain.conversation.window import LOWEST_RATIO, SMALLEST_WINDOW, Anchor, Calibration
from fleetagent.domain.model import ModelRequest, Reply
from fleetagent.errors import PromptTooLong
from fleetagent.ports import Model

log = logging.getLogger(__name__)

DOUBTED_EVERY_RUNS = 6

WORDS = {
    Worth.CLIPPED: "it cuts prompts off without a word",
    Worth.SURPRISING: "it has another tokenizer or template than before",
    Worth.ANOTHER: "another model seems to count now; learnt anew",
    Worth.UNCOUNTED: "that is no count; our estimate stands in",
}


async def measure(transcript: Transcript, model: Model, *, within_a_run: bool) -> None:
    """Let the server say how large its window is, and count the next request where a projection will not do."""
    learn_window(transcript, await model.context_window())
    budget = transcript.budget
    if not transcript.is_sure(budget.within_a_run if within_a_run else budget.before_a_run):
        _measured(transcript, await model.count_tokens(transcript.request_to_count()))


def learn_window(transcript: Transcript, limit_tokens: int | None) -> None:
    """Believe a server that names a window below the budget."""
    if limit_tokens is not None and SMALLEST_WINDOW <= limit_tokens < transcript.budget.total:
        transcript.window = limit_tokens
        transcript.counts = replace(transcript.counts, window_tokens=limit_tokens)


async def refused(transcript: Transcript, refusal: PromptTooLong, request: ModelRequest, estimated: int) -> None:
    """This request was too long for the server: its earlier counts misled us, the one that it names now may not.

    Without one it still has counted more than its window leaves beside the answer. Both are learnt for later runs, or
    the next one would be refused for the same.
    """
    transcript.forget_anchors()
    _measured(transcript, refusal.prompt_tokens)
    before, count = transcript.calibration, believable(refusal.prompt_tokens, estimated)
    if count is not None:
        transcript.calibration = before.learn(estimated, count)
    elif refusal.limit_tokens is not None and refusal.limit_tokens >= SMALLEST_WINDOW:
        transcript.calibration = before.at_least((refusal.limit_tokens - request.max_output_tokens) / estimated)
    if transcript.calibration != before:
        await _remember(transcript, None, estimated)


async def doubted(transcript: Transcript) -> None:
    """Our projection alone keeps this request from the server: now and then what it rests on is forgotten.

    A server that counted nonsense once would otherwise never be asked again. One that was right says it again: it is
    asked in one run of so many, or counts before that one on request.
    """
    if transcript.run.run_id % DOUBTED_EVERY_RUNS == 0:
        transcript.forget_anchors()
        transcript.calibration = Calibration()
        await _remember(transcript, None, transcript.estimate())


async def counted(transcript: Transcript, reply: Reply, estimated: int) -> None:
    """Learn from what the server counted; people see its figure, not ours."""
    told, before, ratio = reply.usage.prompt_tokens, transcript.counts, transcript.calibration
    transcript.counts, transcript.calibration, worth = before.take(told, estimated, ratio, transcript.run.run_id)
    if worth in WORDS and not (worth is Worth.UNCOUNTED and before.uncounted):
        projected = ratio.project(estimated, before.anchor(estimated, transcript.run.run_id))
        sentence = "%s: the model server counted %s tokens in a prompt of about %d: %s"
        log.warning(sentence, transcript.subject.key, told, projected, WORDS[worth])
    transcript.was_counted()
    await _remember(transcript, believable(told, estimated), estimated)


async def _remember(transcript: Transcript, reported: int | None, estimated: int) -> None:
    await transcript.conversation.count(
        transcript.run,
        reported=reported,
        estimated=estimated,
        counts=transcript.counts,
        calibration=transcript.calibration,
    )


def _measured(transcript: Transcript, tokens: int | None) -> None:
    """The server has counted the next request without answering it, or has not; nonsense is not believed."""
    estimated = transcript.estimate()
    count = believable(tokens, estimated)
    if count is not None and count >= LOWEST_RATIO * estimated:
        transcript.counts = transcript.counts.anchored(Anchor(count, estimated), transcript.run.run_id)
        transcript.was_counted()
