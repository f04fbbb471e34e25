"""What a server always does: bad summaries (B15), another way of counting (B16), a taste in messages (B29)."""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from fleetagent.domain.records import Outcome
from fleetagent.sim.model.faults import CATALOGUE
from fleetagent.sim.model.personality import PERSONALITIES
from support.fault_list import KEY, SPEC, Patient, a_patient
from support.manifests import merged
from support.servers import Model, a_model

SMALL = merged(SPEC, {"context": {"tokenBudget": 5_000}, "model": {"maxOutputTokens": 512}})
MOST_RUNS = 30
SUMMARIES = [name for name in CATALOGUE if name.startswith("B15")]
DENSE = base64.b64encode(bytes(range(180))).decode() + " 算力证明群组运行良好 " + bytes(range(60)).hex()


@pytest.fixture(scope="module")
def server() -> Iterator[Model]:
    with a_model(api_key=KEY) as running:
        yield running


@pytest.fixture
async def patient(database_url: str, server: Model) -> AsyncIterator[Patient]:
    async with a_patient(database_url, server) as one:
        yield one
    server.put("config", {"personality": "strict", "counts_more": 1.0, "context_window": 32_768})


async def run_until(patient: Patient, fault: str | None, methods: set[str]) -> dict[str, Any]:
    """Run until the conversation was compacted in one of these ways; every run on the way ends well."""
    for _ in range(MOST_RUNS):
        lived = await patient.live_through(fault)
        lived.check()
        assert lived.row["outcome"] == Outcome.ACTED, lived.told
        rows = await patient.process.rows("SELECT * FROM compactions ORDER BY id DESC LIMIT 1")
        if rows and rows[0]["run_id"] == lived.row["run_id"] and rows[0]["method"] in methods:
            return rows[0]
    pytest.fail(f"no compaction of {methods} within {MOST_RUNS} runs")


@pytest.mark.parametrize("name", SUMMARIES)
async def test_a_bad_summary_costs_a_digest_and_never_the_history(patient: Patient, name: str) -> None:
    patient.spec, patient.hurried = SMALL, name == "B15/timeout"

    bad = await run_until(patient, name, {"Digest", "Summary"})

    assert bad["method"] == "Digest", bad["summary"]
    assert bad["because"]
    assert bad["tokens_after"] < bad["tokens_before"]
    assert "think" not in bad["summary"]
    assert [words for reason, words in patient.cluster.events if reason == "Compacted" and "Digest" in words]
    audit = await patient.process.rows("SELECT * FROM messages WHERE left_prompt_because = 'compacted'")
    assert audit
    assert all(row["content"] or row["role"] == "assistant" for row in audit), "what left the prompt is kept whole"

    patient.hurried = False
    good = await run_until(patient, None, {"Digest", "Summary"})
    assert (good["method"], good["because"]) == ("Summary", None)


async def test_a_server_that_counts_more_than_we_do_is_learnt_and_not_overrun(patient: Patient, server: Model) -> None:
    patient.spec = SMALL
    server.put("config", {"counts_more": 1.6, "context_window": 5_000})
    before = server.get("state")["overflows"]

    for n in range(12):
        if n % 3 == 0:
            await patient.say(f"{n}: {DENSE}")
        lived = await patient.live_through(None)
        lived.check()
        assert lived.row["outcome"] in {Outcome.ACTED, Outcome.HELD}, lived.told

    state = server.get("state")
    assert state["overflows"] - before <= 1, "one refusal teaches it"
    assert (await patient.record()).session.context_tokens == state["last_prompt_tokens"]


@pytest.mark.parametrize("name", PERSONALITIES)
async def test_every_taste_in_messages_is_met_after_one_refusal_of_a_kind(
    patient: Patient, server: Model, name: str
) -> None:
    server.put("config", {"personality": name})
    wanted = PERSONALITIES[name].refuses & {"alternation", "system_role"}

    for _ in range(3):
        await patient.say("prefer hosts in the EU")
        lived = await patient.live_through(None)
        assert lived.row["outcome"] == Outcome.ACTED, lived.told
        broken = [request["violations"][0]["rule"] for request in lived.requests if request["violations"]]
        assert set(broken) <= wanted
        assert len(broken) == len(set(broken))
        wanted -= set(broken)
        assert len(lived.launched) == 1
        assert "None" not in [m["content"] for r in lived.requests for m in r["body"]["messages"]]
