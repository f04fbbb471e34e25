"""Who decides while the model cannot: plain arithmetic, under the same rules and limits, where the spec says so."""

import logging
from collections.abc import Awaitable

from fleetagent.agent.acting import launch, stop
from fleetagent.agent.desk import Desk
from fleetagent.agent.judgement import TOKENS_USED_UP, Trouble
from fleetagent.agent.planning import planned
from fleetagent.domain.facts import CONTROLLER
from fleetagent.domain.fallback import controller_decides
from fleetagent.domain.model import JsonObject
from fleetagent.domain.plan import Plan
from fleetagent.domain.text import neutral
from fleetagent.errors import BadResource, Denied, TryLater, Unclear

log = logging.getLogger(__name__)


async def stand_in(desk: Desk, trouble: Trouble | None) -> str | None:
    """What the controller did in the model's place, in a few words; None where it is not its turn."""
    if trouble is None or not trouble.is_models:
        return None
    since = desk.subject.record.model_failing_since or desk.run.started_at
    used_up = trouble.reason == TOKENS_USED_UP
    if not controller_decides(desk.subject.spec, since, desk.run.started_at, tokens_used_up=used_up):
        return None
    said = await _decide(desk)
    log.warning("%s run %s: the controller decided: %s", desk.subject.key, desk.run.run_id, said)
    return said


async def _decide(desk: Desk) -> str:
    """Carry out the plan once, each step an action like the model's own; what fails waits for the next run."""
    try:
        plan = await planned(desk, CONTROLLER)
    except (TryLater, Denied, BadResource) as error:
        return f"it held, no plan could be made ({neutral(str(error), 160)})"
    done = [
        await _said("launch", launch(desk, s.offer.offer_id, "the plan needs it", f"controller-{n}", by=CONTROLLER))
        for n, s in enumerate(plan.launches, 1)
    ]
    done += [
        await _said("stop", stop(desk, i.instance_id, "the target is met without it", f"controller-{n}", by=CONTROLLER))
        for n, i in enumerate(plan.stops, 1)
    ]
    return ", ".join(done) or _held(plan)


async def _said(kind: str, action: Awaitable[JsonObject]) -> str:
    """What became of one action."""
    try:
        answer = await action
    except Unclear as doubt:
        return f"{kind} not clear ({neutral(str(doubt), 160)})"
    except (TryLater, Denied, BadResource) as error:
        return f"{kind} not possible now ({neutral(str(error), 160)})"
    if refused := answer.get("refused"):
        return f"{kind} refused ({refused['code']})"
    if waiting := answer.get("waiting"):
        return f"{kind} waits for approval ({waiting['action']})"
    name = answer.get("instance_id", "")
    if answer.get("ok"):
        return f"{kind} {name}"
    return f"{kind} {name} {'not clear' if 'unclear' in answer else 'failed'}"


def _held(plan: Plan) -> str:
    if plan.then.capacity is None or plan.then.target is None:
        return "it held, fleet or demand is unknown"
    return f"it held, {plan.bound.sentence}" if plan.bound is not None else "it held, on target"
