"""The conversation as its owner sees it: status, conditions and Events, while models fail and prompts grow large."""

from typing import Any

from support.asking import BY_HAND
from support.stage import NAME, Stage

WAITS_S = 90


def served(stage: Stage, request: str) -> None:
    """A run that was asked for has ended and is told."""
    stage.annotate(requested_at=request)
    stage.wait_for(lambda: stage.status().get("lastHandledRequest") == request, f"request {request}", WAITS_S)


def make_fat(stage: Stage, run_id: int, tokens: int, count: int) -> None:
    """Fill the conversation as a run of long ago might have."""
    text = "instance 33014980 proves at 42.5 proofs/h; " * (tokens // count // 19)
    query = """
        INSERT INTO messages (agent_id, session_id, run_id, seq, kind, role, content)
        SELECT a.id, a.session_id, %s, s.last_seq + n, k.kind, k.role, %s
        FROM agents a JOIN sessions s ON s.id = a.session_id, generate_series(1, %s) AS n,
             LATERAL (SELECT CASE n %% 2 WHEN 1 THEN 'observation' ELSE 'reply' END AS kind,
                             CASE n %% 2 WHEN 1 THEN 'user' ELSE 'assistant' END AS role) AS k
        RETURNING seq
    """
    stage.rows(query, run_id, text, count)
    stage.rows("UPDATE sessions SET last_seq = last_seq + %s WHERE ended_at IS NULL RETURNING id", count)


def test_a_short_but_huge_conversation_is_compacted_and_its_owner_is_told(stage: Stage) -> None:
    stage.start_operator()
    stage.apply(spec={"schedule": BY_HAND})
    first = stage.wait_for_runs(1, WAITS_S)[0]
    make_fat(stage, first["run_id"], 38_000, 5)

    served(stage, "now")

    session, state = stage.status()["session"], stage.model.get("state")
    assert session["compactions"] == 1
    assert stage.rows("SELECT tokens_before FROM compactions")[0]["tokens_before"] > 38_000
    assert session["contextTokens"] == state["last_prompt_tokens"] < 10_000
    assert abs(session["estimatedTokens"] - session["contextTokens"]) < session["contextTokens"] * 0.15
    assert state["max_prompt_tokens"] <= 30_000 - 2_048
    assert (state["violations"], state["overflows"]) == (0, 0)
    stage.wait_for(lambda: stage.events("Compacted"), "an Event tells of it")
    assert stage.rows("SELECT count(*) AS n FROM messages WHERE left_prompt_because = 'compacted'")[0]["n"] >= 5
    assert stage.condition("ContextFits")["status"] == "True"
    stage.check_books()


def test_a_failing_model_is_a_condition_with_a_remedy_and_the_session_outlives_it(stage: Stage) -> None:
    stage.start_operator()
    stage.apply(spec={"schedule": BY_HAND})
    stage.wait_for_target()
    launches = stage.rows("SELECT count(*) AS n FROM actions")[0]["n"]
    stage.model.put("faults", {"name": "A16", "times": None})

    served(stage, "while the quota is used up")

    available = stage.condition("ModelAvailable")
    assert (available["status"], available["reason"]) == ("False", "QuotaExceeded")
    assert "raise it there" in available["message"]
    assert stage.condition("Ready")["status"] == "False"
    assert stage.status()["lastRun"]["outcome"] == "Failed"
    assert not stage.runs()[-1]["quiet"]

    stage.model.delete("faults")
    served(stage, "after it was raised")
    assert stage.condition("ModelAvailable")["status"] == "True"
    assert stage.condition("Ready")["status"] == "True"
    assert stage.rows("SELECT count(*) AS n FROM actions")[0]["n"] == launches
    stage.check_books()


def test_a_budget_that_is_too_small_stops_its_own_agent_only(stage: Stage) -> None:
    stage.start_operator()
    small: dict[str, Any] = {"context": {"tokenBudget": 2_000}, "instructions": "Prefer hosts in the EU. " * 400}
    stage.apply(spec={"schedule": BY_HAND, **small})
    stage.wait_for(lambda: stage.condition("ContextFits").get("status") == "False", "ContextFits False", WAITS_S)

    assert stage.status()["lastRun"]["outcome"] == "ContextFull"
    assert "spec.context.tokenBudget is 2000" in stage.condition("ContextFits")["message"]
    assert stage.condition("Ready")["reason"] == "ContextFull"
    assert stage.model.get("state")["requests"] == 0
    assert len(stage.runs()) == 1, "it is not tried again and again"

    stage.apply(metadata={"name": "other"}, spec={"schedule": BY_HAND, "mode": "DryRun"})
    stage.wait_for(lambda: (stage.resource("other").get("status") or {}).get("lastRun"), "the other one runs", WAITS_S)
    assert stage.resource("other")["status"]["lastRun"]["outcome"] != "ContextFull"

    stage.apply(spec={"schedule": BY_HAND, "mode": "DryRun", "context": {"tokenBudget": 30_000}, "instructions": ""})
    stage.wait_for(lambda: stage.condition("ContextFits").get("status") == "True", f"{NAME} fits again", WAITS_S)
    assert stage.model.get("state")["violations"] == 0
