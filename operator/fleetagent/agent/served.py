"""What people said by annotation and nobody has served yet, in the order of design: reset, words, approvals, request."""

import hashlib
import re

from fleetagent.agent.compose import MOST_FEEDBACK_CHARS
from fleetagent.agent.subject import Subject
from fleetagent.domain.records import Lease
from fleetagent.domain.resource import Annotation
from fleetagent.domain.schedule import Pending, Trigger
from fleetagent.domain.text import clean
from fleetagent.ports import Agents, Cluster, Runs

LONGEST_VALUE = 253
ACKNOWLEDGEMENT = re.compile(r"^\s*(?:alert-)?(\d{1,12})\s*(?::\s*(.*))?$", re.DOTALL)

NAMES: dict[str, Annotation] = {
    "request": Annotation.REQUESTED_AT,
    "reset": Annotation.RESET_REQUESTED_AT,
    "message": Annotation.MESSAGE,
    "acknowledge": Annotation.ACKNOWLEDGE,
    "approve": Annotation.APPROVE,
    "reject": Annotation.REJECT,
}


def value_of(name: str, said: str) -> str:
    """How a value is remembered: itself, or its hash where it is long or somebody's words."""
    said = clean(said)
    if name != "message" and len(said) <= LONGEST_VALUE:
        return said
    return f"sha256:{hashlib.sha256(said.encode()).hexdigest()[:32]}"


def unserved(subject: Subject, name: str) -> str | None:
    """The annotation's value as it is remembered, if neither the row nor the status knows it as served."""
    said = subject.agent.said(NAMES[name])
    if said is None:
        return None
    value = value_of(name, said)
    status = subject.agent.status
    known = {subject.record.handled.get(name), getattr(status, f"last_handled_{name}")}
    return None if value in known else value


def wants_reset(subject: Subject) -> dict[str, str]:
    """The values that call for a new session, by the name under which they are remembered."""
    wanted: dict[str, str] = {}
    if (value := unserved(subject, "reset")) is not None:
        wanted["reset"] = value
    session = value_of("session", subject.spec.context.session)
    known = subject.record.handled.get("session"), subject.agent.status.last_handled_session
    if known != (None, None) and session not in known:
        wanted["session"] = session
    return wanted


class Served:
    """Turns unserved annotations into persisted triggers; each value once."""

    def __init__(self, agents: Agents, runs: Runs, cluster: Cluster) -> None:
        self._agents = agents
        self._runs = runs
        self._cluster = cluster

    async def reset(self, subject: Subject, lease: Lease) -> bool:
        """Start a new session if one is asked for. It starts no run by itself."""
        wanted = wants_reset(subject)
        if not wanted:
            return False
        session = value_of("session", subject.spec.context.session)
        await self._agents.start_session(lease, {"session": session, **wanted})
        await self._say(subject, "Normal", "SessionReset", "the conversation was archived; a new one starts")
        return True

    async def persist(self, subject: Subject, waiting: tuple[Pending, ...]) -> bool:
        """Write down messages, acknowledgements and requests that are not there yet; whether there were any."""
        wrote = False
        known = {(p.kind, p.value) for p in waiting}
        agent_id = subject.record.id
        if (value := unserved(subject, "message")) and (Trigger.FEEDBACK, f"message:{value}") not in known:
            words = clean(subject.agent.said(Annotation.MESSAGE) or "")
            if len(words) > MOST_FEEDBACK_CHARS:
                short = f"the message has {len(words)} characters; the agent is told the first {MOST_FEEDBACK_CHARS}"
                await self._say(subject, "Warning", "MessageCut", short)
            if words.strip():
                text = words[:MOST_FEEDBACK_CHARS]
                wrote |= await self._runs.persist(agent_id, Trigger.FEEDBACK, f"message:{value}", text)
        value = unserved(subject, "acknowledge")
        if value and (Trigger.FEEDBACK, f"acknowledge:{value}") not in known:
            found = ACKNOWLEDGEMENT.match(clean(subject.agent.said(Annotation.ACKNOWLEDGE) or ""))
            if found is not None:
                comment = (found.group(2) or "").strip()[:MOST_FEEDBACK_CHARS]
                await self._runs.acknowledge(agent_id, int(found.group(1)), comment, f"acknowledge:{value}")
                wrote = True
        if (value := unserved(subject, "request")) and (Trigger.REQUEST, value) not in known:
            wrote |= await self._runs.persist(agent_id, Trigger.REQUEST, value)
        return wrote

    async def refuse_the_rest(self, subject: Subject, lease: Lease) -> None:
        """Say what cannot be served, once, and remember that it was said."""
        handled: dict[str, str] = {}
        value, said = unserved(subject, "acknowledge"), subject.agent.said(Annotation.ACKNOWLEDGE) or ""
        if value is not None and ACKNOWLEDGEMENT.match(clean(said)) is None:
            handled["acknowledge"] = value
            await self._say(
                subject,
                "Warning",
                "BadAnnotation",
                f"{Annotation.ACKNOWLEDGE.value} must be an alert's id and, after a colon, a comment: alert-17: known outage",
            )
        for name in ("approve", "reject"):
            if (value := unserved(subject, name)) is not None:
                handled[name] = value
                await self._say(
                    subject, "Warning", "NothingWaiting", f"{NAMES[name].value}: no action waits for approval"
                )
        message = subject.agent.said(Annotation.MESSAGE)
        if (value := unserved(subject, "message")) is not None and message is not None and not clean(message).strip():
            handled["message"] = value
        if subject.record.handled.get("session") is None:
            handled["session"] = value_of("session", subject.spec.context.session)
        if handled:
            await self._agents.mark_handled(lease, handled)

    async def _say(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        meta = subject.agent.metadata
        await self._cluster.event(meta.namespace, meta.name, meta.uid, kind=kind, reason=reason, message=message)
