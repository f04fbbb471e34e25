"""The whole engine on a real model server: counted exactly, never refused, whatever the model says."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from fleetagent.dev.llama import LlamaServer
from fleetagent.domain.conversation.strict import violations
from fleetagent.domain.records import Outcome
from support.real_model import WINDOW_TOKENS, Report, Watch, many_runs, on_llama, told
from support.servers import Market
from support.stores import Process, a_process

RUNS = 200
HOURS_S = 2 * 3600


@pytest.fixture
async def one(database_url: str) -> AsyncIterator[Process]:
    async with a_process(database_url, lease=timedelta(hours=3)) as process:
        yield process


@pytest.mark.timeout(HOURS_S)
async def test_200_runs_in_a_small_window_are_never_refused(
    one: Process, with_tools: LlamaServer, market: Market, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = Watch()
    async with on_llama(one, with_tools, market, watch) as on:
        report = await many_runs(on, watch, RUNS)
        record = await on.record()

    with capsys.disabled():
        print(f"\n{told(report)}")  # noqa: T201 - the figures are what one runs this for
    check_that_nothing_broke(report)
    assert sum(report.outcomes.values()) == RUNS
    assert sum(report.compactions.values()) >= 5
    assert any(m.get("tool_calls") for e in report.wire for m in e.body["messages"])
    newest = [e for e in report.wire if not e.is_summary][-1]
    assert record.session.context_tokens == newest.prompt_tokens


@pytest.mark.timeout(HOURS_S)
async def test_the_template_in_the_weights_takes_every_history_as_well(
    one: Process, as_shipped: LlamaServer, market: Market
) -> None:
    watch = Watch()
    async with on_llama(one, as_shipped, market, watch) as on:
        report = await many_runs(on, watch, 20)

    check_that_nothing_broke(report)


@pytest.mark.timeout(HOURS_S)
async def test_the_next_prompt_is_estimated_within_two_percent_once_one_was_counted(
    one: Process, with_tools: LlamaServer, market: Market
) -> None:
    watch = Watch()
    async with on_llama(one, with_tools, market, watch) as on:
        on.spec = {"context": {"tokenBudget": WINDOW_TOKENS}, "model": {"timeout": "10m", "maxOutputTokens": 64}}
        for n in range(6):
            await on.say(f"{n}: keep to hosts in the EU, and tell me when the price of a proof passes 0.004 USD")
            await on.run()
            newest = watch.wire.exchanges[-1]
            assert (await on.record()).session.context_tokens == newest.prompt_tokens

    first, *later = watch.projections()
    assert not first.anchored
    anchored = [p for p in later if p.anchored]  # after a compaction the guess is careful, until the next count
    assert len(anchored) >= 5
    assert max(abs(p.error) for p in anchored) <= 0.02


def check_that_nothing_broke(report: Report) -> None:
    assert report.refused == []
    assert [found for e in report.wire if (found := violations(e.body["messages"]))] == []
    assert max(e.prompt_tokens for e in report.wire) < WINDOW_TOKENS
    assert not {Outcome.CONTEXT_FULL, Outcome.INTERRUPTED, Outcome.SKIPPED} & set(report.outcomes)
