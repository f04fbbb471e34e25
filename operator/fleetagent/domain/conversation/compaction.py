"""What leaves the prompt when it does not fit its budget: masking first, then the oldest whole runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleetagent.domain.conversation.window import Budget

UNMASKED_RUNS = 2
_SHARE_WORTH_MASKING = 6
_SHARE_LEFT = 3


@dataclass(frozen=True, slots=True)
class FeedbackSize:
    """One message of a person, by its `seq` in the session."""

    seq: int
    tokens: int


@dataclass(frozen=True, slots=True)
class RunSize:
    """What one finished run adds to the prompt: as history shows it, and when it is masked; feedback is in both."""

    run_id: int
    tokens_full: int
    tokens_masked: int
    feedback: tuple[FeedbackSize, ...] = ()

    @property
    def feedback_tokens(self) -> int:
        """What people said in it."""
        return sum(f.tokens for f in self.feedback)

    @property
    def is_only_feedback(self) -> bool:
        """Whether it left before, and nothing but a person's words stayed."""
        return self.tokens_full <= self.feedback_tokens


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is to leave the prompt, to be done in one transaction. Feedback of the runs that leave is named by `seq`."""

    masked_before_run: int
    summarise_runs: tuple[int, ...]
    keep_feedback: tuple[int, ...]
    drop_feedback: tuple[int, ...]
    projected_after: int


def plan(
    runs: Sequence[RunSize],
    *,
    fixed_tokens: int,
    summary_tokens: int,
    projected_tokens: int,
    budget: Budget,
    masked_before_run: int,
    within_a_run: bool = False,
    overflowed: bool = False,
) -> Compaction | None:
    """What must leave so that the next request fits with room to spare; None: nothing must, or nothing is left to go.

    A run that fits may still begin with masking: when old facts have become a good part of what each request costs.
    `runs` are finished ones, in any order. `fixed_tokens` is the estimate of all else: system, tools, summary (its
    own part again in `summary_tokens`), this run's messages. `overflowed`: the server refused this very request.
    """
    limit = budget.within_a_run if within_a_run else budget.before_a_run
    runs = sorted(runs, key=lambda r: r.run_id)
    estimated = fixed_tokens + sum(_shown(r, masked_before_run) for r in runs)
    if projected_tokens <= limit and not overflowed:
        return None if within_a_run else _early_masking(runs, projected_tokens, estimated, budget, masked_before_run)
    # A refusal proves that the request is larger than we thought.
    scale = max(projected_tokens, limit + 1 if overflowed else 0) / max(estimated, 1)
    fixed = math.ceil(fixed_tokens * scale)
    # Far below the limit, so that the next compaction is far away; if the fixed part is large, a third of the rest.
    target = min(max(budget.total // _SHARE_LEFT, fixed + max(limit - fixed, 0) // 3), limit)

    masked = _mask_border(runs, masked_before_run)
    after_masking = fixed + math.ceil(sum(_shown(r, masked) for r in runs) * scale)
    if after_masking <= target and masked > masked_before_run:
        return Compaction(masked, (), (), (), after_masking)
    fixed += math.ceil((budget.summary_cap - summary_tokens) * scale)
    return _with_summary(runs, fixed, target, limit, scale, budget.feedback_cap, masked)


def masking_pays(freed: float, projected: float, budget: Budget) -> bool:
    """Whether old facts are masked although all fits: every request pays for them again, for months.

    Each step costs the server its prefix cache, so it must free a lot, and leave as little as a compaction would.
    """
    return freed >= budget.total / _SHARE_WORTH_MASKING and projected - freed <= budget.total / _SHARE_LEFT


def _early_masking(
    runs: Sequence[RunSize], projected: int, estimated: int, budget: Budget, masked_before_run: int
) -> Compaction | None:
    masked = _mask_border(runs, masked_before_run)
    freed = sum(_shown(r, masked_before_run) - _shown(r, masked) for r in runs) * projected / max(estimated, 1)
    if not masking_pays(freed, projected, budget):
        return None
    return Compaction(masked, (), (), (), math.ceil(projected - freed))


def _shown(run: RunSize, masked_before_run: int) -> int:
    return run.tokens_masked if run.run_id < masked_before_run else run.tokens_full


def _mask_border(runs: Sequence[RunSize], masked_before_run: int) -> int:
    """Everything older than the newest two runs, in one step: each step costs the server its prefix cache."""
    ids = [r.run_id for r in runs if not r.is_only_feedback]
    return max(masked_before_run, ids[-UNMASKED_RUNS]) if len(ids) > UNMASKED_RUNS else masked_before_run


def _with_summary(
    runs: Sequence[RunSize], fixed: int, target: int, limit: int, scale: float, feedback_cap: int, masked: int
) -> Compaction | None:
    """The oldest whole runs leave for the summary, as many as it takes, if need be all of them."""
    for first_kept in range(1, len(runs) + 1):
        leaving, staying = runs[:first_kept], runs[first_kept:]
        keep, drop = _feedback_that_stays(leaving, staying, math.floor(feedback_cap / scale))
        stays = sum(_shown(r, masked) for r in staying) + sum(f.tokens for f in keep)
        after = fixed + math.ceil(stays * scale)
        summarise = tuple(r.run_id for r in leaving if not r.is_only_feedback)
        # The newest run is worth some of the room to spare: it is what the model just did.
        enough = (target + limit) // 2 if len(staying) == 1 else target
        if (summarise or drop) and (after <= enough or not staying):
            return Compaction(masked, summarise, tuple(f.seq for f in keep), tuple(f.seq for f in drop), after)
    return None


def _feedback_that_stays(
    leaving: Sequence[RunSize], staying: Sequence[RunSize], cap: int
) -> tuple[list[FeedbackSize], list[FeedbackSize]]:
    """People's words of the runs that leave: kept from the newest back to the first that does not fit, and the rest."""
    room = cap - sum(r.feedback_tokens for r in staying)
    newest_first = sorted((f for r in leaving for f in r.feedback), key=lambda f: -f.seq)
    kept = 0
    while kept < len(newest_first) and newest_first[kept].tokens <= room:
        room -= newest_first[kept].tokens
        kept += 1
    return newest_first[:kept][::-1], newest_first[kept:][::-1]
