"""What people said by annotation and nobody has served yet, in this order: reset, words, approvals, request."""

from fleetagent.agent.approvals import Approvals
from fleetagent.agent.subject import Subject
from fleetagent.domain.records import Lease
from fleetagent.domain.resource import Annotation
from fleetagent.domain.said import ACKNOWLEDGEMENT, MOST_COMMENT_CHARS, MOST_FEEDBACK_CHARS, NAMES, value_of
from fleetagent.domain.schedule import Pending, Trigger
from fleetagent.domain.text import clean
from fleetagent.ports import Agents, Cluster, Runs

REMEMBERED = (*NAMES, "session")
"""What has a last handled value, in the row and in the status."""


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

    def __init__(self, agents: Agents, runs: Runs, cluster: Cluster, approvals: Approvals) -> None:
        self._agents = agents
        self._runs = runs
        self._cluster = cluster
        self._approvals = approvals

    async def reset(self, subject: Subject, lease: Lease) -> bool:
        """Start a new session if one is asked for. It starts no run by itself."""
        wanted = wants_reset(subject)
        if not wanted:
            return False
        session = value_of("session", subject.spec.context.session)
        await self._agents.start_session(lease, {"session": session, **wanted})
        await self._say(subject, "Normal", "SessionReset", "the conversation was archived; a new one starts")
        return True

    async def expire(self, subject: Subject, lease: Lease) -> None:
        """End what waited for a person for too long."""
        await self._approvals.expire(subject, lease)

    async def persist(self, subject: Subject, waiting: tuple[Pending, ...]) -> bool:
        """Write down what people said and is not there yet: words, approvals, requests; whether there was any.

        A rejection is obeyed at once, and remembered as served by `refuse_the_rest`; so is an approval of what does not
        wait, which is answered there.
        """
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
                comment = (found.group(2) or "").strip()
                if (length := len(comment)) > MOST_COMMENT_CHARS:
                    short = f"the comment has {length} characters; the agent is told the first {MOST_COMMENT_CHARS}"
                    await self._say(subject, "Warning", "MessageCut", short)
                comment = comment[:MOST_COMMENT_CHARS]
                await self._runs.acknowledge(agent_id, int(found.group(1)), comment, f"acknowledge:{value}")
                wrote = True
        if unserved(subject, "reject") is not None:
            await self._approvals.reject(subject)
        value = unserved(subject, "approve")
        if value is not None and (Trigger.APPROVAL, f"approve:{value}") not in known:
            wrote |= await self._approvals.approve(subject, value, say_none_waits=False)
        value = unserved(subject, "request")
        if value is not None and (Trigger.REQUEST, value) not in known:
            wrote |= await self._runs.persist(agent_id, Trigger.REQUEST, value)
        return wrote

    async def refuse_the_rest(self, subject: Subject, lease: Lease) -> bool:
        """Answer what calls for no run, once, and remember that it was answered; whether there was anything.

        Such are rejections, approvals of what does not wait, and what cannot be read.
        """
        handled: dict[str, str] = {}
        value, said = unserved(subject, "acknowledge"), subject.agent.said(Annotation.ACKNOWLEDGE) or ""
        if value is not None and ACKNOWLEDGEMENT.match(clean(said)) is None:
            handled["acknowledge"] = value
            sentence = "must be an alert's id and, after a colon, a comment: alert-17: known outage"
            await self._say(subject, "Warning", "BadAnnotation", f"{Annotation.ACKNOWLEDGE.value} {sentence}")
        if (value := unserved(subject, "reject")) is not None:
            await self._approvals.reject_and_answer(subject)
            handled["reject"] = value
        value = unserved(subject, "approve")
        if value is not None and not await self._approvals.approve(subject, value, say_none_waits=True):
            handled["approve"] = value
        message = subject.agent.said(Annotation.MESSAGE)
        if (value := unserved(subject, "message")) is not None and message is not None and not clean(message).strip():
            handled["message"] = value
        handled |= _known_to_the_status_alone(subject)
        if handled:
            await self._agents.mark_handled(lease, handled)
        return bool(handled)

    async def _say(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        meta = subject.agent.metadata
        await self._cluster.event(meta.namespace, meta.name, meta.uid, kind=kind, reason=reason, message=message)


def _known_to_the_status_alone(subject: Subject) -> dict[str, str]:
    """Values that the row must learn before the next report, which repeats the row, makes them look unserved.

    The first one of a session's name is nothing but the name that it begins with.
    """
    said = {name: subject.agent.said(annotation) for name, annotation in NAMES.items()}
    said["session"] = subject.spec.context.session
    values = {name: value_of(name, text) for name, text in said.items() if text is not None}
    row, status = subject.record.handled, subject.agent.status
    known = {name: value for name, value in values.items() if value == getattr(status, f"last_handled_{name}")}
    if row.get("session") is None:
        known["session"] = values["session"]
    return {name: value for name, value in known.items() if value != row.get(name)}
