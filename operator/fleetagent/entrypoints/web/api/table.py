"""The table of all that can be read, in the order in which the reference shows it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

from fleetagent.domain.resource.wire import Wire
from fleetagent.domain.views import (
    ActionView,
    AgentRow,
    AgentView,
    AlertView,
    CompactionView,
    HostView,
    MachineView,
    MessageView,
    Page,
    RunRow,
    RunView,
    SampleView,
    SessionView,
    SpendView,
    WakeView,
)
from fleetagent.entrypoints.web.api.endpoints import OF_AN_AGENT, Call, Endpoint, not_found
from fleetagent.entrypoints.web.api.export import JSON_LINES, export
from fleetagent.entrypoints.web.api.queries import (
    OfActions,
    OfAgents,
    OfAlerts,
    OfConversation,
    OfMachines,
    OfRuns,
    OfSamples,
    OfSession,
    OfSpend,
    OfWakes,
    Paged,
    Query,
)
from fleetagent.errors import BadRequest

A_DAY = timedelta(hours=24)

Row = TypeVar("Row", bound=Wire)


def _all(rows: Sequence[Row]) -> Page[Row]:
    return Page(items=tuple(rows))


async def _agents(call: Call[OfAgents]) -> Wire:
    query = call.query
    if query.namespace is not None:
        await call.who.must_read(query.namespace)
        return _all(await call.reading.agents((query.namespace,), deleted=query.deleted))
    if query.deleted:
        raise BadRequest("deleted: name the namespace as well, with namespace=")
    return _all(await call.reading.agents(await call.who.readable(await call.reading.namespaces())))


async def _agent(call: Call[Query]) -> Wire:
    row, resource = await call.reading.agent(call.key), await call.who.resource(call.key) or {}
    if row is None and not resource:
        raise not_found(f"FleetAgent {call.key}")
    row = row or _not_met_yet(call, resource)
    return AgentView.model_validate({**dict(row), "spec": resource.get("spec"), "status": resource.get("status")})


def _not_met_yet(call: Call[Query], resource: Any) -> AgentRow:
    """A resource that the operator has not looked at yet: nothing has happened."""
    return AgentRow(
        namespace=call.key.namespace,
        name=call.key.name,
        uid=resource["metadata"]["uid"],
        last_run_id=0,
        open_alerts=0,
        waiting_actions=0,
        pending_wakes=0,
    )


async def _runs(call: Call[OfRuns]) -> Wire:
    query = call.query
    return await call.reading.runs(call.key, query.slice, outcome=query.outcome, trigger=query.trigger)


async def _run(call: Call[Query]) -> Wire:
    found = await call.reading.run(call.key, call.id)
    if found is None:
        raise not_found(f"run {call.id} of {call.key}, or it is older than spec.retention.runs")
    return found


async def _sessions(call: Call[Paged]) -> Wire:
    return await call.reading.sessions(call.key, call.query.slice)


async def _session(call: Call[Query]) -> Wire:
    found = await call.reading.session(call.key, call.id)
    if found is None:
        raise not_found(f"session {call.id} of {call.key}")
    return found


async def _conversation(call: Call[OfConversation]) -> Wire:
    query = call.query
    return await call.reading.conversation(call.key, query.session, query.slice, in_prompt=query.in_prompt)


async def _compactions(call: Call[OfSession]) -> Wire:
    return _all(await call.reading.compactions(call.key, call.query.session))


async def _actions(call: Call[OfActions]) -> Wire:
    query = call.query
    return await call.reading.actions(call.key, query.slice, run_id=query.run, states=query.state)


async def _wakes(call: Call[OfWakes]) -> Wire:
    return await call.reading.wakes(call.key, call.query.slice, state=call.query.state)


async def _alerts(call: Call[OfAlerts]) -> Wire:
    return await call.reading.alerts(call.key, call.query.slice, state=call.query.state)


async def _machines(call: Call[OfMachines]) -> Wire:
    return await call.reading.machines(call.key, call.query.slice, ended=call.query.ended)


async def _hosts(call: Call[Query]) -> Wire:
    return _all(await call.reading.hosts(call.key))


async def _spend(call: Call[OfSpend]) -> Wire:
    return _all(await call.reading.spend(call.key, call.query.days))


async def _samples(call: Call[OfSamples]) -> Wire:
    query = call.query
    until = query.until or call.now()
    since = query.since or until - A_DAY
    if since >= until:
        raise BadRequest("since: must lie before until; without until, that is now")
    return _all(await call.reading.samples(call.key, since, until, most=query.most))


def _endpoint(name: str, below: str, summary: str, query: Any, answer: Any, read: Any) -> Endpoint[Any]:
    return Endpoint(f"{OF_AN_AGENT}{below}", name, summary, query, answer, read)


ENDPOINTS: tuple[Endpoint[Any], ...] = (
    Endpoint("/agents", "agents", "The agents that the caller may read", OfAgents, Page[AgentRow], _agents),
    _endpoint("agent", "", "One agent with its spec and status", Query, AgentView, _agent),
    _endpoint("runs", "/runs", "Runs, newest first", OfRuns, Page[RunRow], _runs),
    _endpoint("run", "/runs/{id}", "One run with actions, messages and compactions", Query, RunView, _run),
    _endpoint(
        "sessions", "/sessions", "Conversations between two resets, newest first", Paged, Page[SessionView], _sessions
    ),
    _endpoint("session", "/sessions/{id}", "One session", Query, SessionView, _session),
    Endpoint(
        f"{OF_AN_AGENT}/sessions/{{id}}/export",
        "export",
        "All messages of a session as JSON Lines, in the format of chat completions",
        Query,
        None,
        export,
        JSON_LINES,
    ),
    _endpoint(
        "conversation",
        "/conversation",
        "Messages of a session, newest first",
        OfConversation,
        Page[MessageView],
        _conversation,
    ),
    _endpoint(
        "compactions",
        "/compactions",
        "What left the prompt of a session, and why",
        OfSession,
        Page[CompactionView],
        _compactions,
    ),
    _endpoint("actions", "/actions", "Actions and refusals, newest first", OfActions, Page[ActionView], _actions),
    _endpoint("wakes", "/wakes", "Runs that the model asked for", OfWakes, Page[WakeView], _wakes),
    _endpoint("alerts", "/alerts", "Alerts, newest first", OfAlerts, Page[AlertView], _alerts),
    _endpoint("machines", "/machines", "Rented machines with their phases", OfMachines, Page[MachineView], _machines),
    _endpoint("hosts", "/hosts", "Hosts that were measured or have failed", Query, Page[HostView], _hosts),
    _endpoint("spend", "/spend", "What each UTC day cost, newest first", OfSpend, Page[SpendView], _spend),
    _endpoint("samples", "/samples", "The fleet over time, oldest first", OfSamples, Page[SampleView], _samples),
)
