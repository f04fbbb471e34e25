"""What the policy says at the end of a run: from the tools' results, and from nothing else."""

import json
from collections.abc import Iterator
from typing import Any

from fleetagent.sim.model.directives import directives_in
from fleetagent.sim.model.run import Done, Run, objects, plan_of

EFFECTS = {"launch_instance": ("Launched", "offer_id"), "stop_instance": ("Stopped", "instance_id")}

REASONS = {"unclear": "Unclear", "failed": "Failed", "error": "Failed", "because": "Failed"}
"""Where a result that is not ok says why, and what that means."""


def told(run: Run) -> str:
    """Plain sentences: effects, refusals, or why nothing was done; then what the operator asked for."""
    effects = [done for done in run.done if done.name in EFFECTS]
    sentences = [*_effects(effects)] if effects else [_why_nothing(run)]
    sentences += _asked_for(run)
    return " ".join([*sentences, *directives_in(run.texts).words])


def verdict(run: Run) -> str:
    """Whether something was done; only an effect that the tool confirmed counts, and it changes the state."""
    acted = any(_ok(done) for done in run.done if done.name in EFFECTS)
    return json.dumps({"action": acted, "state_changed": acted})


def _effects(effects: list[Done]) -> Iterator[str]:
    for name, (verb, key) in EFFECTS.items():
        of_this_kind = [done for done in effects if done.name == name]
        worked = [str(done.arguments.get(key)) for done in of_this_kind if _ok(done)]
        if worked:
            yield f"{verb} {len(worked)}: {', '.join(worked)}."
        for done in of_this_kind:
            if not _ok(done):
                yield _failure(done, f"{name} {done.arguments.get(key)}")


def _failure(done: Done, what: str) -> str:
    result = done.result_json or {}
    refused = result.get("refused")
    if isinstance(refused, dict):
        return f"Refused: {what}: {refused.get('code')}: {str(refused.get('sentence')).rstrip('.')}."
    waiting = result.get("waiting")
    if isinstance(waiting, dict):
        return f"Waits for a person: {what}: {waiting.get('action')} until {waiting.get('expires_at')}."
    for key, word in REASONS.items():
        if result.get("ok") is False and isinstance(result.get(key), str):
            return f"{word}: {what}: {_short(result[key]).rstrip('.')}."
    return f"Unclear: {what}: {_short(done.result)}"


def _why_nothing(run: Run) -> str:
    planned = plan_of(run)
    if planned is None:
        done = run.result_of("plan_capacity")
        return _failure(done, "plan_capacity") if done else "Looked and did nothing: there was no plan to act on."
    projected, target = planned.get("projected_proofs_per_hour"), planned.get("target_proofs_per_hour")
    figures = f"projected {_figure(projected)} proofs/h, target {_figure(target)}"
    because = f" ({_short(planned['because'])})" if isinstance(planned.get("because"), str) else ""
    if planned.get("hold"):
        enough = isinstance(projected, int | float) and isinstance(target, int | float) and projected >= target
        return f"Hold: {figures}, so the capacity suffices." if enough else f"Hold, as planned: {figures}{because}."
    if objects(planned.get("launch")) or objects(planned.get("stop")):
        return f"Nothing was done about the plan: {figures}."
    return f"The plan has nothing to launch or stop: {figures}{because}."


def _asked_for(run: Run) -> Iterator[str]:
    for done in run.done:
        if done.name == "schedule_next_check":
            yield _outcome(done, f"Next check in {done.arguments.get('minutes')} minutes.")
        if done.name == "raise_alert":
            yield _outcome(done, f"Raised an alert: {done.arguments.get('message')}.")


def _outcome(done: Done, sentence: str) -> str:
    return sentence if _ok(done) else _failure(done, done.name)


def _ok(done: Done) -> bool:
    return (done.result_json or {}).get("ok") is True


def _figure(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else "unknown"


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:120]}…"
