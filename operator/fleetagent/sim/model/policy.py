"""The scripted policy: look, plan, act as planned or hold, then say truly what happened.

A pure function of the request. It decides from this run's tool results alone and invents nothing.
"""

from collections.abc import Callable, Iterator

from fleetagent.sim.model.conversation import ChatRequest
from fleetagent.sim.model.directives import Wanted, directives_in
from fleetagent.sim.model.replies import Reply, assistant
from fleetagent.sim.model.run import Run, newest_run, objects, plan_of
from fleetagent.sim.model.summary import asks_for_summary, summarise
from fleetagent.sim.model.words import told, verdict

RETRIES = 2
"""How often a call is made again whose arguments did not arrive as they were sent."""


def decide(request: ChatRequest) -> Reply:
    """The next assistant message."""
    if asks_for_summary(request):
        return assistant(summarise(request))
    run = newest_run(request.messages)
    calls = list(_next_calls(run, request))
    if request.tool_choice == "required" and not calls:
        calls = [Wanted(request.offered[0], {})]
    if not calls:
        return assistant(final_answer(run))
    # Real servers send null or "" beside calls; a client must get along with both.
    content = "" if run.done else None
    kept = calls if request.parallel_tool_calls else calls[:1]
    return assistant(content, *((call.name, call.arguments) for call in kept))


def _next_calls(run: Run, request: ChatRequest) -> Iterator[Wanted]:
    """The calls of the first step that is not done yet; none when the run is over."""
    if request.tool_choice == "none":
        return
    if request.tool_choice not in {"auto", "required"}:
        yield Wanted(request.tool_choice, {})
        return
    for step in STEPS:
        wanted = step(run)
        tries = {call.name: RETRIES + sum(other.name == call.name for other in wanted) for call in wanted}
        missing = [
            call
            for call in wanted
            if call.name in request.offered
            and not run.has_made(call)
            and sum(done.name == call.name for done in run.done) < tries[call.name]
        ]
        yield from missing
        if missing:
            return


def look(_: Run) -> tuple[Wanted, ...]:
    """First the facts."""
    return Wanted("get_fleet", {}), Wanted("get_demand", {})


def plan(_: Run) -> tuple[Wanted, ...]:
    """Code does the arithmetic."""
    return (Wanted("plan_capacity", {}),)


def act(run: Run) -> tuple[Wanted, ...]:
    """Do what the plan says, and what the operator's message asks for."""
    return *_planned(run), *directives_in(run.texts).calls


STEPS: tuple[Callable[[Run], tuple[Wanted, ...]], ...] = (look, plan, act)


def _planned(run: Run) -> Iterator[Wanted]:
    planned = plan_of(run)
    if planned is None or planned.get("hold"):
        return
    for launch in objects(planned.get("launch")):
        expected, price = launch.get("expected_proofs_per_hour"), launch.get("usd_per_hour")
        reason = f"as planned: {launch.get('gpu')}, {expected} proofs/h for {price} USD/h"
        yield Wanted("launch_instance", {"offer_id": launch.get("offer_id"), "reason": reason})
    for stop in objects(planned.get("stop")):
        reason = f"as planned: {stop.get('because')}"
        yield Wanted("stop_instance", {"instance_id": stop.get("instance_id"), "reason": reason})


def final_answer(run: Run) -> str:
    """One or two sentences, then the verdict."""
    return f"{told(run)}\n{verdict(run)}"
