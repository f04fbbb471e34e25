"""What agents of one endpoint share: one back-off, one pace, one memory that is bounded. Time is a value."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetagent.adapters.model.answers import Answer, NoAnswer
from fleetagent.adapters.model.endpoints import Endpoints
from fleetagent.adapters.model.gate import Gate
from fleetagent.adapters.model.waits import Allowance
from fleetagent.domain.model import JsonObject, Reply
from fleetagent.errors import ModelLoading, TryLater
from support.pursuit import Crowd, Server, asking, error, ok

AGENTS = 10


def busy_until(moment: float, refusal: Answer) -> Crowd:
    def answers(now: float, _: JsonObject) -> Answer | NoAnswer:
        return refusal if now < moment else ok()

    return Crowd(answers)


async def test_ten_agents_and_one_429_make_one_request_before_its_time_is_over() -> None:
    crowd = busy_until(30, error(429, "slow down", {"retry-after": "30"}))

    replies = await crowd.all(*(crowd.agent() for _ in range(AGENTS)))

    assert all(isinstance(reply, Reply) for reply in replies)
    assert [moment for moment in crowd.asked_at if moment < 30] == [0]
    assert len(crowd.asked_at) == 1 + AGENTS


async def test_who_comes_later_waits_as_well() -> None:
    crowd = busy_until(30, error(429, "slow down", {"retry-after": "30"}))

    replies = await crowd.all(*(crowd.agent(at=3.0 * number) for number in range(AGENTS)))

    assert all(isinstance(reply, Reply) for reply in replies)
    assert [moment for moment in crowd.asked_at if moment < 30] == [0]


async def test_when_it_opens_again_one_goes_first_and_a_second_refusal_holds_for_all() -> None:
    crowd = busy_until(90, error(503, "busy", {"retry-after": "30"}))
    crowd.call_seconds = 0.2

    replies = await crowd.all(*(crowd.agent() for _ in range(AGENTS)))

    assert all(isinstance(reply, Reply) for reply in replies)
    assert [round(moment) for moment in crowd.asked_at if moment < 90] == [0, 30, 60]


async def test_without_a_hint_the_back_off_is_one_for_all() -> None:
    crowd = busy_until(100, error(503, "Loading model", type="unavailable_error"))

    replies = await crowd.all(*(crowd.agent() for _ in range(AGENTS)))

    assert all(isinstance(reply, Reply) for reply in replies)
    assert [moment for moment in crowd.asked_at if moment < 100] == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5]


async def test_calls_that_are_under_way_together_are_one_refusal() -> None:
    crowd = Crowd(lambda now, _: error(503, "busy") if 10 <= now < 11 else ok(), call_seconds=1)

    await crowd.all(crowd.agent(), *(crowd.agent(at=10) for _ in range(AGENTS)))

    assert crowd.asked_at[: AGENTS + 2] == [0, *[10] * AGENTS, 11.5]


async def test_who_cannot_wait_that_long_says_until_when_and_why_without_asking() -> None:
    crowd = busy_until(3600, error(429, "no more this hour", {"retry-after": "3600"}))

    first, second = await crowd.all(crowd.agent(), crowd.agent(at=60))

    assert isinstance(first, TryLater)
    assert isinstance(second, TryLater)
    assert str(second) == (
        "the model server takes no request before 1970-01-01 01:00:00 UTC, as it said: 429: no more this hour "
        "(a higher limit there helps, or a longer spec.schedule.interval)"
    )
    assert second.retry_after_seconds == 3540
    assert crowd.asked_at == [0]


async def test_a_model_that_loads_is_told_apart_for_those_who_did_not_ask_as_well() -> None:
    crowd = busy_until(3600, error(503, "Loading model", {"retry-after": "600"}))

    outcomes = await crowd.all(*(crowd.agent(at=float(number)) for number in range(3)))

    assert [type(outcome) for outcome in outcomes] == [ModelLoading] * 3
    assert crowd.asked_at == [0]


async def test_a_slow_first_answer_holds_nobody_up_for_long() -> None:
    crowd = busy_until(0, ok())
    crowd.call_seconds = 60

    await crowd.all(*(crowd.agent() for _ in range(AGENTS)))

    assert max(crowd.asked_at) <= 0.5 * AGENTS


async def test_a_server_that_answers_is_asked_by_all_at_once() -> None:
    crowd = busy_until(0, ok())
    crowd.call_seconds = 1

    await crowd.all(crowd.agent(), *(crowd.agent(at=2) for _ in range(AGENTS)))

    assert crowd.asked_at == [0, *[2] * AGENTS]


def test_an_answer_to_an_earlier_request_does_not_open_it() -> None:
    gate = Gate()
    gate.refused(0.0, 30.0, 1.0, "RateLimited", "429")
    gate.answered(10.0, [])
    assert gate.closed_seconds(10.0) == 20.0

    gate.passed(30.0, {})

    assert gate.closed_seconds(30.0) == 0.5


def test_a_failure_of_one_request_holds_up_nobody_else() -> None:
    gate = Gate()
    with pytest.raises(TryLater):
        Server([error(500, "CUDA error")], gate=gate).reply()

    assert gate.closed_seconds(0) == 0


def limits(**headers: str) -> Mapping[str, str]:
    return {f"x-ratelimit-{name.replace('_', '-')}": value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        (limits(remaining_requests="0", reset_requests="12s"), [12.0]),
        (limits(remaining_requests="0", reset_requests="12"), [12.0]),
        (limits(remaining_requests="1", reset_requests="12s"), []),
        (limits(remaining_tokens="10", reset_tokens="250ms"), [0.25]),
        (limits(remaining_tokens="100000", reset_tokens="6m0s"), []),
        (limits(remaining_tokens="0", reset_tokens="6m0s"), [60.0]),  # longer is for the server to say
        (limits(remaining_tokens="0"), []),
        (limits(remaining_tokens="-1", remaining_requests="-1"), []),
        (limits(remaining_tokens="0", reset_tokens="0"), []),
        (limits(remaining_tokens="0", reset_tokens="-1"), []),
        (limits(remaining_tokens="many", reset_tokens="soon"), []),
        ({}, []),
    ],
    ids=repr,
)
def test_the_pace_that_a_good_reply_tells_is_kept_by_the_next(headers: Mapping[str, str], waits: list[float]) -> None:
    gate = Gate()
    Server([Answer(200, ok().body, headers)], gate=gate).reply()
    next_one = Server([ok()], gate=gate)

    next_one.reply(asking(messages=({"role": "user", "content": "word " * 100},)))

    assert next_one.waits == waits


async def test_those_who_ask_together_share_what_the_server_still_takes() -> None:
    told = Answer(200, ok().body, limits(remaining_requests="3", reset_requests="20s"))
    crowd = Crowd(lambda now, _: told if now == 0 else ok())

    await crowd.all(crowd.agent(), *(crowd.agent(at=1) for _ in range(5)))

    assert crowd.asked_at == [0, 1, 1, 1, 20, 20]


def test_a_pace_that_is_only_guessed_at_fails_no_run() -> None:
    gate = Gate()
    Server([Answer(200, ok().body, limits(remaining_requests="0", reset_requests="50s"))], gate=gate).reply()

    next_one = Server([ok()], gate=gate)

    assert next_one.reply(patience_seconds=10).text == "hold"
    assert next_one.waits == []


def test_a_server_that_asks_for_a_day_is_looked_at_after_an_hour() -> None:
    gate = Gate()
    gate.refused(0.0, 86_400.0, 1.0, "RateLimited", "429: no")

    assert gate.closed_seconds(0.0) == 3600


def test_a_trouble_long_after_the_last_one_starts_with_a_small_back_off() -> None:
    gate = Gate()
    for moment in (0.0, 1.0, 10.0, 20.0):
        gate.refused(moment, None, 1.0, "NotReady", "503")
    assert gate.closed_seconds(20.0) == 4.0

    gate.refused(1000.0, None, 1.0, "NotReady", "503")

    assert gate.closed_seconds(1000.0) == 0.5


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["passed", "answered", "refused"]),
            st.floats(0, 1e6),
            st.none() | st.floats(0, 1e9),
            st.floats(-1e9, 1e9),
        ),
        max_size=30,
    )
)
def test_whatever_a_server_says_the_gate_opens_within_an_hour_and_a_minute(
    steps: list[tuple[str, float, float | None, float]],
) -> None:
    gate, now = Gate(), 0.0
    for what, seconds, hint, left in steps:
        now += seconds
        if what == "passed":
            gate.passed(now, {"requests": 1.0, "tokens": abs(left)})
        elif what == "answered":
            gate.answered(now, [Allowance("tokens", left, hint or 1.0)])
        else:
            gate.refused(now, hint, 0.5, "RateLimited", "429")
        rounding = 1e-6  # a moment is a sum of floats
        assert 0 <= gate.closed_seconds(now) <= 3600 + rounding
        assert 0 <= gate.paced_seconds(now, {"tokens": 1e12}) <= 60 + rounding


def test_agents_of_one_endpoint_share_what_was_learnt_and_others_do_not() -> None:
    known = Endpoints()

    for kept in (known.habits, known.sizes):
        assert kept("http://a/v1", "key", "qwen") is kept("http://a/v1/", "key", "qwen")
        assert kept("http://a/v1", "key", "qwen") is not kept("http://a/v1", "key", "llama")
        assert kept("http://a/v1", "key", "qwen") is not kept("http://a/v1", "other key", "qwen")
    assert known.gate("http://a/v1", "key") is known.gate("http://a/v1/", "key")
    assert known.gate("http://a/v1", "key") is not known.gate("http://a/v1", "other key")
    assert known.gate("http://a/v1", None) is not known.gate("http://b/v1", None)


def test_what_is_remembered_is_bounded_and_holds_no_key() -> None:
    known = Endpoints(most=3)
    kept = known.gate("http://0/v1", "very-secret")
    for number in range(20):
        known.gate(f"http://{number}/v1", "very-secret")
        known.habits(f"http://{number}/v1", "very-secret", "qwen")
        assert known.gate("http://0/v1", "very-secret") is kept

    assert len(known._gates) == len(known._habits) == 3
    assert "very-secret" not in repr(vars(known))
