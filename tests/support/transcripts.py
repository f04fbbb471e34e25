"""The transcript of a run that has just begun, and answers to it."""

from typing import Any

from fleetagent.agent.compose import Compose
from fleetagent.agent.counting import counted
from fleetagent.agent.subject import Subject
from fleetagent.agent.toolbox import Toolbox
from fleetagent.agent.tools import TOOLS
from fleetagent.agent.transcript import Transcript
from fleetagent.domain.conversation.calls import normalise
from fleetagent.domain.conversation.messages import Message
from fleetagent.domain.model import RawCall, Reply, Usage
from fleetagent.domain.records import Lease
from support.fleets import NOW, an_instance, an_observation
from support.manifests import a_fleet_agent
from support.memory import Memory
from support.rehearsal import COUNT

VOCABULARY = "a vocabulary"


async def opened(memory: Memory, vocabulary: str = VOCABULARY, **spec: Any) -> Transcript:
    """The transcript of a new run."""
    subject = Subject(a_fleet_agent(spec=spec), memory.record(), "fa/test/")
    run = await memory.claim(Lease(1, memory.token), NOW)
    schemas = Toolbox(TOOLS).schemas
    return await Compose(memory, COUNT, schemas, vocabulary)(subject, run, an_observation(an_instance(), wanted=100))


def a_reply(tokens: int | None, text: str = "Hold.", *asked: RawCall, completion: int | None = 10) -> Reply:
    return Reply(text, asked, cut_off=False, usage=Usage(tokens, completion), finish_reason="stop")


async def answered(transcript: Transcript, reply: Reply) -> Message:
    """The reply counted and stored, as the loop does it."""
    await counted(transcript, reply, transcript.estimate())
    message, _ = normalise(reply, transcript.run.run_id, 1)
    await transcript.add([message])
    return message
