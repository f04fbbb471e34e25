"""A scripted model that asks for exactly these calls, run by run, and what became of them."""

from collections.abc import Iterable
from typing import Any

from support.manifests import Json
from support.stage import Stage

BY_HAND = {"interval": "24h", "skipUnchanged": False, "debounce": {"idle": "5m", "max": "10m"}}
"""A schedule whose runs come only when a test asks for them, fleet events or not."""

Call = dict[str, Any]


def launch(offer_id: str, reason: str = "because") -> Call:
    """The wish to rent an offer."""
    return {"name": "launch_instance", "arguments": {"offer_id": offer_id, "reason": reason}}


def stop(instance_id: str, reason: str = "because") -> Call:
    """The wish to destroy a machine."""
    return {"name": "stop_instance", "arguments": {"instance_id": instance_id, "reason": reason}}


LOOK: Call = {"name": "get_offers", "arguments": {}}


def spoken(rounds: Iterable[list[Call]]) -> list[Json]:
    """What a scripted model says to make these calls, a list a round, and to end."""
    end = {"reply": {"content": 'Done.\n{"action": true, "state_changed": true}'}}
    return [*({"calls": calls} for calls in rounds), end]


def script(stage: Stage, *rounds: list[Call]) -> None:
    """The next run makes these calls."""
    stage.model.put("script", spoken(rounds))


def ask(stage: Stage, *rounds: list[Call], request: str | None = None, **spec: Any) -> list[dict[str, Any]]:
    """A run that makes these calls, called for by a changed spec or by a request; its actions when it has ended."""
    before = len(stage.runs())
    script(stage, *rounds)
    if spec:
        stage.apply(spec={"schedule": BY_HAND, **spec})
    else:
        stage.annotate(requested_at=request or f"request {before}")
    stage.wait_for(lambda: stage.model.get("state")["script_left"] == 0, "the script is spoken", 90)
    stage.wait_for(lambda: _ended_since(stage, before), "the run has ended", 90)
    return stage.rows("SELECT * FROM actions WHERE run_id = %s ORDER BY id", stage.runs()[-1]["run_id"])


def _ended_since(stage: Stage, before: int) -> bool:
    runs = stage.runs()
    return len(runs) > before and all(r["state"] != "running" for r in runs)


def codes(actions: list[dict[str, Any]]) -> list[str]:
    """What became of each action: its state, or why it was refused."""
    return [a["refusal"]["code"] if a["refusal"] else a["state"] for a in actions]


def offers(stage: Stage) -> list[str]:
    """The offers that the newest run was shown, the cheapest proofs first."""
    said = stage.rows(
        "SELECT content::jsonb AS it FROM messages WHERE content LIKE '{\"shown\"%%' ORDER BY session_id DESC, seq DESC"
    )
    return [offer["offer_id"] for offer in said[0]["it"]["offers"]]


def answers(stage: Stage) -> list[dict[str, Any]]:
    """What the newest run's tools answered, in order."""
    newest = stage.runs()[-1]["run_id"]
    query = "SELECT content::jsonb AS it FROM messages WHERE role = 'tool' AND run_id = %s ORDER BY seq"
    return [row["it"] for row in stage.rows(query, newest)]
