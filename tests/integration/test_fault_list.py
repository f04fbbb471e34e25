"""The fault list as a test: one agent lives through each fault, is told what happened, and does nothing twice.

Four runs a row, an interval apart, each of which wants to rent one machine: the fault lasts for all of the first; it
spoils the very answer that rents in the second; it begins right after the renting in the third; the fourth is clean.
"""

import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fleetagent.domain.records import Outcome
from fleetagent.sim.model.faults import CATALOGUE
from support.fault_list import KEY, Lived, Patient, a_patient, spelled
from support.servers import Model, a_model

ROWS = {f"A{n}" for n in range(1, 44)} | {"A19b", "A19c", "A29b", "A29c", "A29d", "A29e"}
BODIES = {"B13", "B15", "B31", "B32", "B34", "B35", "B36", "B38", "B49"}
"""The fault list by its ids (B16 and B29 are habits of a server, not faults: they have tests of their own)."""


@dataclass(frozen=True)
class Row:
    """How the runs under one fault end: an outcome, and the reason of a trouble."""

    whole: tuple[Outcome, str | None]
    once: tuple[Outcome, str | None]
    late: tuple[Outcome, str | None]
    writes: Mapping[str, Any] | None = None
    """What the tool with an argument of each type was given; nothing means that it was never executed."""

    remedy: str = r"next run asks again|spec\.|Secret|server"
    """What an operator reads must match this, whenever it is a trouble."""

    most_requests: int = 30
    once_requests: int | None = None
    """How many requests the run takes whose renting answer was spoilt; the usual run takes four."""

    says: str = ""
    """What a person says before each run."""

    hurried: bool = False
    personality: str = "strict"
    """What else the server refuses."""

    pause_seconds: float = 0.0
    """How much longer than an interval the server asked us to stay away."""


ACTED = (Outcome.ACTED, None)
HELD = (Outcome.HELD, None)
STUCK = (Outcome.NO_PROGRESS, None)


def failed(reason: str) -> tuple[Outcome, str]:
    return Outcome.FAILED, reason


FULL = (Outcome.CONTEXT_FULL, "ContextFull")
AWAY = failed("Unavailable")
LOADING = failed("ModelLoading")
USELESS = failed("BadReply")

TOO_LONG = Row(FULL, FULL, FULL, remedy=r"spec\.context\.tokenBudget")
"""A prompt that the server refuses although it is short: nothing is left to leave out, and that is said."""
TOO_LONG_TOGETHER = replace(TOO_LONG, once=ACTED)
"""Room for the answer is given up first; that suffices once."""
PASSES = Row(AWAY, ACTED, AWAY)
IS_LOADING = Row(LOADING, ACTED, LOADING)
SAYS_NOTHING = Row(USELESS, ACTED, USELESS)
"""An answer without an answer: asked for once more, then told."""
REFUSED = Row(USELESS, USELESS, USELESS)
"""A valid request refused as invalid: no repetition helps, and none is made."""
MAKES_NO_DIFFERENCE = Row(ACTED, ACTED, ACTED)
CALLS_ON = Row(STUCK, ACTED, STUCK)
"""Calls that are understood. The fault goes on calling where the policy would end, and that has a limit."""
CALLS_NOTHING = replace(CALLS_ON, once_requests=5)
"""Calls that can't be executed: the model is told why, and makes its call again once the fault is over."""


def owners(reason: str, remedy: str) -> Row:
    """Only the resource's owner can mend it."""
    return Row(failed(reason), failed(reason), failed(reason), remedy=remedy, most_requests=4)


def writing(**given: Any) -> Row:
    """The tool with an argument of each type gets these values, and the run ends because it is called on and on."""
    return replace(CALLS_ON, writes=given)


KEY_REFUSED = owners("KeyRefused", r"Secret of spec\.model\.apiKeySecretRef")
QUOTA = owners("QuotaExceeded", "raise it there, or wait")
PARAMETER = owners("BadParameters", r"spec\.model\.(parameters|maxOutputTokens)")

EXPECTED: dict[str, Row] = {
    # 2.1 Context overflow
    **dict.fromkeys(("A1", "A1/functions", "A1/newer", "A3/alone", "A4", "A4/characters", "A5"), TOO_LONG),
    **dict.fromkeys(("A6", "A6/500", "A6/status", "A6/larger", "A8", "A8/type", "A11", "A11/chat"), TOO_LONG),
    **dict.fromkeys(("A12", "A12/wrapped", "A12/unmapped", "B32/limit-3", "B32/shift"), TOO_LONG),
    **{name: TOO_LONG for name in CATALOGUE if re.match(r"B32/\d", name)},
    **dict.fromkeys(("A2", "A2/deepseek", "A3", "A9"), TOO_LONG_TOGETHER),
    **dict.fromkeys(("A7", "A7/decode", "A7/in-band", "A7/stream"), TOO_LONG_TOGETHER),
    **dict.fromkeys(("A10", "A10/half", "A13"), MAKES_NO_DIFFERENCE),
    "A13/finish": TOO_LONG,
    "B32/mention": REFUSED,
    "B32/another": PARAMETER,
    # 2.2 Rate, quota, availability, key
    **dict.fromkeys(("A14", "A14/no-header", "A15", "A15/zero", "B35/date", "B35/plain"), PASSES),
    "B35/hour": replace(PASSES, once=AWAY, pause_seconds=3_600),
    **dict.fromkeys(("A16", "A16/litellm"), QUOTA),
    **dict.fromkeys(("A17", "A17/unhealthy", "A17/connection", "A17/upstream"), PASSES),
    **dict.fromkeys(("A18", "A18/newer"), IS_LOADING),
    **dict.fromkeys(("A19", "A19/502", "A19/504", "A19/eof", "A19/router", "B35/500", "B35/load"), PASSES),
    **dict.fromkeys(("A19b", "A19b/vllm", "A19b/llama.cpp", "A19b/litellm", "A19b/expired"), KEY_REFUSED),
    "A19b/model": owners("KeyMayNotUseModel", r"spec\.model\.name"),
    "A19c": owners("ModelNotFound", r"spec\.model\.name"),
    "A19c/route": owners("BadURL", r"spec\.model\.baseURL"),
    # 2.3 Malformed assistant output
    **dict.fromkeys(("A20", "A20/vllm", "A20/stop", "A29b/unclosed", "A29b/swallowed"), SAYS_NOTHING),
    **dict.fromkeys(("B31/only-closed", "B31/length"), SAYS_NOTHING),
    **dict.fromkeys(("A20/replayed", "A21/replayed", "A21/replayed-delimiter", "A21/replayed-llama.cpp"), REFUSED),
    **dict.fromkeys(("A25/replayed", "A26", "A26/unanswered", "A26/responses"), REFUSED),
    **dict.fromkeys(("A21", "A21/length", "A21/quotes", "A29d", "A29d/namespaced"), CALLS_NOTHING),
    # The history shows the name with lines for spaces, so that the policy takes its call for made.
    "A29d/spaces": replace(CALLS_ON, once=HELD),
    **dict.fromkeys(("A29d/empty", "A43/name", "A43/raw"), CALLS_NOTHING),
    **{name: CALLS_NOTHING for name in CATALOGUE if name.startswith("B13")},
    **dict.fromkeys(("A22", "A22/null", "A22/break", "A23/twice", "A23/for-string", "A43/arguments"), CALLS_ON),
    **dict.fromkeys(("A24", "A24/missing", "A25", "A25/twice", "A29e", "A29e/many"), CALLS_ON),
    **dict.fromkeys(("A27", "A27/qwen", "A27/qwen-whole", "A27/closer", "A28", "A28/hermes"), CALLS_ON),
    "A27/quoted": Row(HELD, HELD, ACTED),
    "A23": writing(count=5),
    "A23/boolean": writing(count=5, on=True),
    "A23/object": writing(count=5, detail={"a": 1}),
    "A23/array": writing(count=5, tags=("a",)),
    **dict.fromkeys(("B38/text", "B38/point"), writing(count=2)),
    "B38/exponent": writing(count=1_000),
    "B38/negative": writing(count=-1),
    "B38/false": writing(count=5, on=False),
    **dict.fromkeys(("B38/fraction", "B38/null", "B38/huge", "B38/unit"), writing()),
    **dict.fromkeys(("B38/extra", "B38/wrapped", "B38/parameters"), writing(count=5)),
    **dict.fromkeys(("A29", "A29/reasoning", "A29/text", "A29/both", "A29b", "B31/closed"), MAKES_NO_DIFFERENCE),
    **dict.fromkeys(("A29c", "A29c/nested", "A29c/thinking"), MAKES_NO_DIFFERENCE),
    # 2.4 Protocol and template
    **dict.fromkeys(("A30", "A30/llama.cpp", "A31", "A31/llama.cpp"), REFUSED),
    "A32/system": replace(MAKES_NO_DIFFERENCE, personality="openai"),
    "A32": replace(MAKES_NO_DIFFERENCE, says="prefer hosts in the EU"),
    **dict.fromkeys(("A33", "A33/mirror", "A34", "A34/422"), MAKES_NO_DIFFERENCE),
    "A33/both": replace(PARAMETER, once=ACTED, most_requests=10),
    "A34/temperature": PARAMETER,
    **dict.fromkeys(("A35", "A35/reasoning", "A35/constraint"), MAKES_NO_DIFFERENCE),
    "A36": SAYS_NOTHING,
    **dict.fromkeys(("A36/stop", "A36/null", "A36/end", "A36/function"), CALLS_ON),
    "A36/length": CALLS_NOTHING,
    "A36/window": TOO_LONG,
    **dict.fromkeys(("A36/filter", "A37", "A37/refused", "A37/policy"), replace(REFUSED, remedy="content filter")),
    **dict.fromkeys(("A38", "A38/empty", "A38/azure", "B36/message", "B36/login"), SAYS_NOTHING),
    **dict.fromkeys(("B36/truncated", "B36/empty", "A41/stream"), SAYS_NOTHING),
    **dict.fromkeys(("A38/error", "A38/choice", "A41", "A41/error", "A42/gateway"), PASSES),
    **dict.fromkeys(("A39", "A39/null", "A39/zero", "A39/choice"), MAKES_NO_DIFFERENCE),
    **dict.fromkeys(("A40", "A40/none", "A40/more", "A40/timings", "B36/finish"), MAKES_NO_DIFFERENCE),
    **dict.fromkeys(("B34/total", "B34/texts", "B34/negative", "B34/absurd"), MAKES_NO_DIFFERENCE),
    **dict.fromkeys(("A42", "B35/silence", "B35/slow"), replace(PASSES, hurried=True)),
    **dict.fromkeys(("A43", "A43/reasoning", "B49/bytes"), MAKES_NO_DIFFERENCE),
    **dict.fromkeys(("B49/huge", "B49/huge-error"), SAYS_NOTHING),
    **dict.fromkeys(("A43/error", "B49/error-bytes"), PASSES),
}
NEVER_EXECUTED = {"A21", "A21/length", "A21/quotes", "A36/length", "A36/filter", "A36/window", "B13/cut"}
"""Calls that came broken or cut off: nothing of them may have had an effect."""


UNCONCERNED = {"A33/mirror", "A35", "A35/reasoning", "A35/constraint"}
"""Faults that concern only requests such as the operator never makes."""


@pytest.fixture(scope="module")
def server() -> Iterator[Model]:
    with a_model(api_key=KEY) as running:
        yield running


@pytest.fixture
async def patient(database_url: str, server: Model) -> AsyncIterator[Patient]:
    async with a_patient(database_url, server) as one:
        yield one


def test_every_row_of_the_fault_list_is_in_the_catalogue() -> None:
    served = {name.partition("/")[0] for name in CATALOGUE}

    assert served == ROWS | BODIES


def test_every_fault_of_the_catalogue_says_how_it_ends() -> None:
    assert EXPECTED.keys() | {n for n in CATALOGUE if n.startswith("B15")} == CATALOGUE.keys()


@pytest.mark.parametrize("name", EXPECTED)
async def test_a_session_outlives_a_fault(
    patient: Patient, server: Model, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="fleetagent")
    row = EXPECTED[name]
    patient.hurried = row.hurried
    server.put("config", {"personality": row.personality})

    patient.says = row.says

    whole = await patient.live_through(name)
    once = await patient.live_through(name, times=1, after=2, pause_seconds=row.pause_seconds)
    late = await patient.live_through(name, after=3, pause_seconds=row.pause_seconds)
    patient.hurried = False
    clean = await patient.live_through(None, pause_seconds=row.pause_seconds)

    assert [ended(lived) for lived in (whole, once, late)] == [row.whole, row.once, row.late], [
        lived.told for lived in (whole, once, late)
    ]
    assert ended(clean) == ACTED, clean.told
    for lived in (whole, once, late, clean):
        lived.check(strict=row.personality == "strict")
        is_told(lived, row)
    if row.writes is not None:
        assert bool(whole.written) is bool(row.writes), whole.written
        assert [{**given.model_dump(), **row.writes} for given in whole.written] == [
            given.model_dump() for given in whole.written
        ]
    if name in NEVER_EXECUTED:
        assert (whole.launched, whole.written) == ([], [])
    if row.once_requests is not None:
        assert len(once.requests) == row.once_requests
    assert name in UNCONCERNED or name in {request["fault"] for request in whole.requests}
    assert len(patient.market.asked) == len(set(patient.market.asked)) == len(patient.market.rented)
    compactions = await patient.process.rows("SELECT run_id FROM compactions")
    under_fault = [c for c in compactions if c["run_id"] <= late.row["run_id"]]
    assert len(under_fault) <= (1 if FULL in {row.whole, row.once, row.late} else 0), "nothing is forgotten in vain"
    said = await patient.everything_said() + caplog.text
    assert [spelling for spelling in spelled(KEY) if spelling in said] == []


def ended(lived: Lived) -> tuple[Outcome, str | None]:
    return Outcome(lived.row["outcome"]), lived.row["reason"]


def is_told(lived: Lived, row: Row) -> None:
    """What happened stands in the run in words; what was troubled is never booked as a quiet run."""
    assert lived.row["summary"], lived.row
    assert len(lived.requests) <= row.most_requests
    if ended(lived) in {ACTED, HELD}:
        assert lived.row["error"] is None
        return
    assert not lived.row["quiet"], lived.told
    assert lived.row["error"], lived.row
    if lived.row["reason"] is not None:
        assert re.search(row.remedy, lived.row["error"]), lived.told
