"""What Prometheus scrapes."""

from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleetagent.adapters.metrics import MeteredModel, Metrics
from fleetagent.domain.model import CallsFrom, ModelRequest, NothingUsable, RawCall, Reply, Usage
from fleetagent.domain.records import AgentKey
from fleetagent.errors import BadReply, BadResource, FleetUnreadable, PromptTooLong, TryLater

POREP, OTHER = AgentKey("fleet", "porep"), AgentKey("fleet", "other")
REQUEST = ModelRequest(({"role": "user", "content": "?"},), (), 10, timedelta(seconds=1))


class Scripted:
    """Answers, or fails, as told."""

    def __init__(self, *lines: Reply | Exception) -> None:
        self._lines = list(lines)

    async def reply(self, request: ModelRequest) -> Reply:
        del request
        line = self._lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return line

    async def context_window(self) -> int | None:
        return 32_768

    async def count_tokens(self, request: ModelRequest) -> int | None:
        return len(request.messages)


def a_reply(prompt: int | None, completion: int | None, cached: int | None) -> Reply:
    return Reply("yes", (), cut_off=False, usage=Usage(prompt, completion, cached), finish_reason="stop")


def scraped(metrics: Metrics) -> dict[str, float]:
    """Each sample as `name{label=value,…}`; the bounds of histograms left out."""
    return {
        f"{sample.name}{{{','.join(f'{k}={v}' for k, v in sorted(sample.labels.items()))}}}": sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }


async def test_requests_are_counted_by_what_they_came_to_and_tokens_as_the_server_counted_them() -> None:
    metrics = Metrics()
    failures = (TryLater("a"), PromptTooLong("b"), BadReply("c"), BadResource("ModelAvailable", "KeyRefused", "d"))
    model = MeteredModel(
        Scripted(a_reply(900, 40, 800), a_reply(1000, 60, None), *failures, FleetUnreadable("e")), metrics, POREP
    )

    for _ in range(2):
        await model.reply(REQUEST)
    for _ in range(5):
        with pytest.raises((TryLater, PromptTooLong, BadReply, BadResource)):
            await model.reply(REQUEST)

    found = scraped(metrics)
    about = "name=porep,namespace=fleet"
    outcomes = {
        word: found[f"fleetagent_model_requests_total{{{about},outcome={word}}}"]
        for word in ("Answered", "Unavailable", "PromptTooLong", "BadReply", "Refused")
    }
    assert outcomes == {"Answered": 2, "Unavailable": 2, "PromptTooLong": 1, "BadReply": 1, "Refused": 1}
    assert found[f"fleetagent_model_request_seconds_count{{{about}}}"] == 7
    tokens = {
        kind: found[f"fleetagent_model_tokens_total{{kind={kind},{about}}}"]
        for kind in ("input", "cached_input", "output")
    }
    assert tokens == {"input": 1900, "cached_input": 800, "output": 100}
    assert found[f"fleetagent_context_tokens{{{about}}}"] == 1000


async def test_a_reply_without_a_count_leaves_the_last_context_size_standing() -> None:
    metrics = Metrics()
    model = MeteredModel(Scripted(a_reply(900, 1, None), a_reply(None, None, None)), metrics, POREP)

    await model.reply(REQUEST)
    await model.reply(REQUEST)

    assert scraped(metrics)["fleetagent_context_tokens{name=porep,namespace=fleet}"] == 900


async def test_tokens_of_an_answer_that_is_of_no_use_are_counted_too() -> None:
    metrics = Metrics()
    failure = NothingUsable("thoughts alone", a_reply(900, 500, None))

    with pytest.raises(NothingUsable):
        await MeteredModel(Scripted(failure), metrics, POREP).reply(REQUEST)

    found = scraped(metrics)
    assert found["fleetagent_model_tokens_total{kind=output,name=porep,namespace=fleet}"] == 500
    assert found["fleetagent_model_requests_total{name=porep,namespace=fleet,outcome=BadReply}"] == 1


async def test_calls_that_stood_in_text_are_counted_by_their_place() -> None:
    metrics = Metrics()
    reply = replace(a_reply(1, 1, 1), calls=(RawCall("a", "{}"), RawCall("b", "{}")), calls_from=CallsFrom.REASONING)

    await MeteredModel(Scripted(reply, a_reply(1, 1, 1)), metrics, POREP).reply(REQUEST)

    found = {key: value for key, value in scraped(metrics).items() if "misplaced" in key}
    assert found == {"fleetagent_model_misplaced_calls_total{name=porep,namespace=fleet,place=reasoning}": 2}


def test_compactions_are_counted_by_how_they_were_made() -> None:
    metrics = Metrics()
    for method in ("Masked", "Summary", "Summary", "Digest"):
        metrics.compacted(POREP, method)

    found = {key: value for key, value in scraped(metrics).items() if "compactions" in key}

    assert found == {
        "fleetagent_compactions_total{method=Digest,name=porep,namespace=fleet}": 1,
        "fleetagent_compactions_total{method=Masked,name=porep,namespace=fleet}": 1,
        "fleetagent_compactions_total{method=Summary,name=porep,namespace=fleet}": 2,
    }


def test_refusals_are_counted_by_kind_and_code() -> None:
    metrics = Metrics()
    for kind, code in (("launch", "OnTarget"), ("launch", "OnTarget"), ("stop", "TooYoung")):
        metrics.refused(POREP, kind, code)

    found = {key: value for key, value in scraped(metrics).items() if "refusals" in key}

    assert found == {
        "fleetagent_refusals_total{code=OnTarget,kind=launch,name=porep,namespace=fleet}": 2,
        "fleetagent_refusals_total{code=TooYoung,kind=stop,name=porep,namespace=fleet}": 1,
    }


async def test_an_agent_that_is_gone_leaves_no_series_and_others_keep_theirs() -> None:
    metrics = Metrics()
    for key in (POREP, OTHER):
        await MeteredModel(Scripted(a_reply(1, 1, 1)), metrics, key).reply(REQUEST)
        metrics.compacted(key, "Masked")
        metrics.refused(key, "launch", "OnTarget")

    metrics.forget(POREP)

    names = {key for key in scraped(metrics) if "name=porep" in key}
    assert not names
    assert any("name=other" in key for key in scraped(metrics))


def test_whether_it_is_our_turn_is_asked_at_each_scrape() -> None:
    metrics, turn = Metrics(), [True]
    assert b"fleetagent_active 1.0" in metrics.text()

    metrics.watch_turns(lambda: turn[0])
    turn[0] = False

    assert b"fleetagent_active 0.0" in metrics.text()
