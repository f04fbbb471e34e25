"""Compaction for runs of any size: only whole runs leave, oldest first, and what is left fits if it can."""

import math
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from fleetagent.domain.conversation.compaction import FeedbackSize, RunSize, plan
from fleetagent.domain.conversation.summary import RunNote, digest
from fleetagent.domain.conversation.window import Budget, Calibration, fit, fit_tool_result

AT = datetime(2026, 11, 29, tzinfo=UTC)


@st.composite
def run_sizes(draw: st.DrawFn) -> list[RunSize]:
    runs, seq = [], 0
    for run_id in draw(st.lists(st.integers(1, 50), unique=True, max_size=12).map(sorted)):
        feedback = []
        for tokens in draw(st.lists(st.integers(1, 2_000), max_size=2)):
            seq += 1
            feedback.append(FeedbackSize(seq, tokens))
        masked = sum(f.tokens for f in feedback) + draw(st.sampled_from([0, 0, 1]) | st.integers(0, 3_000))
        full = masked + draw(st.integers(0, 20_000)) if masked else 0
        runs.append(RunSize(run_id, full, masked, tuple(feedback)))
    return runs


BUDGETS = st.builds(Budget, st.integers(4_000, 60_000), st.integers(0, 3_000), st.integers(0, 6_000))


@given(
    run_sizes(), BUDGETS, st.integers(0, 40_000), st.floats(0.6, 3.0), st.integers(0, 60), st.booleans(), st.booleans()
)
def test_only_whole_runs_leave_oldest_first_until_the_rest_fits(
    runs: list[RunSize],
    budget: Budget,
    fixed: int,
    scale: float,
    masked: int,
    within: bool,  # noqa: FBT001
    overflowed: bool,  # noqa: FBT001
) -> None:
    estimated = fixed + sum(r.tokens_masked if r.run_id < masked else r.tokens_full for r in runs)
    limit = budget.within_a_run if within else budget.before_a_run

    found = plan(
        runs,
        fixed_tokens=fixed,
        summary_tokens=0,
        projected_tokens=math.ceil(estimated * scale),
        budget=budget,
        masked_before_run=masked,
        within_a_run=within,
        overflowed=overflowed,
    )

    if found is None:
        has_content = any(not r.is_only_feedback for r in runs)
        assert not has_content or (estimated * scale <= limit and not overflowed)
        return
    content = [r.run_id for r in runs if not r.is_only_feedback]
    assert found.summarise_runs == tuple(content[: len(found.summarise_runs)])
    assert found.masked_before_run >= masked
    touched = {*found.keep_feedback, *found.drop_feedback}
    of_leaving_runs = {f.seq for r in runs if r.run_id in found.summarise_runs for f in r.feedback}
    assert of_leaving_runs <= touched
    assert not set(found.keep_feedback) & set(found.drop_feedback)
    assert max(found.drop_feedback, default=0) < min(found.keep_feedback, default=10**9)
    staying = content[len(found.summarise_runs) :]
    assert found.projected_after <= limit or not staying


@given(st.text(max_size=300), st.integers(0, 60))
def test_what_is_fitted_fits(text: str, room: int) -> None:
    def count(some: str) -> int:
        return len(some.encode()) // 3 + 1

    assert count(fit(text, room, count)) <= max(room, count(fit("x" * 999, 0, count)))
    assert text == "" or fit_tool_result(text, room, count)


@given(st.lists(st.tuples(st.integers(1, 5_000), st.none() | st.integers(-5, 20_000))))
def test_the_ratio_never_leaves_its_bounds(requests: list[tuple[int, int | None]]) -> None:
    calibration = Calibration()
    for estimated, reported in requests:
        calibration = calibration.learn(estimated, reported)

    assert 0.6 <= calibration.ratio <= 3.0


@given(st.lists(st.text(max_size=80), max_size=8), st.text(max_size=500), st.integers(200, 600))
def test_a_digest_of_any_texts_stays_within_its_cap(texts: list[str], previous: str, cap: int) -> None:
    notes = [RunNote(i, AT, "Acted", text, (text,)) for i, text in enumerate(texts)]

    assert len(digest(notes, previous, cap_tokens=cap, count=len)) <= cap
