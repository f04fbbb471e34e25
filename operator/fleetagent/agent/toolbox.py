"""One call: validate → tool → words for the model. Nothing that a model says is ever an exception."""

import json
import logging
from collections.abc import Sequence

from fleetagent.agent.desk import FROM_STRANGERS, Desk
from fleetagent.agent.tools import Tool
from fleetagent.domain.conversation.calls import Call
from fleetagent.domain.text import clean
from fleetagent.errors import BadResource, Denied, TryLater, Unclear

log = logging.getLogger(__name__)


class Toolbox:
    """The tools that a model may call, in a fixed order: their schemas are part of every prompt's stable prefix."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.schemas = tuple(tool.schema for tool in tools)

    async def answer(self, desk: Desk, call: Call) -> str:
        """The tool's result as compact JSON, or an error that says what to do instead."""
        if call.problem is not None:
            return self._unusable(desk, call.problem + self._hint(call))
        tool = self._tools.get(call.name)
        if tool is None:
            return self._unusable(desk, f"There is no tool named {clean(call.name, 64)!r}.{self._hint(call)}")
        try:
            arguments = tool.read(call.arguments or {})
        except ValueError as error:
            return self._unusable(desk, f"{call.name}: {error}; nothing was done")
        try:
            result = await tool.answer(desk, arguments, call.id)
        except Unclear as doubt:
            desk.tools_failed += 1
            said = f"{call.name}: not clear whether it happened ({doubt}): look before you repeat it"
            return _error(said, from_strangers=True)
        except (TryLater, Denied, BadResource) as error:
            desk.tools_failed += 1
            log.info("%s run %s: %s: %s", desk.subject.key, desk.run.run_id, call.name, error)
            return _error(f"{call.name} is not possible now: {error}", from_strangers=True)
        return json.dumps(result, ensure_ascii=False, separators=(",", ":"), default=str)

    def _unusable(self, desk: Desk, sentence: str) -> str:
        log.warning("%s run %s: a call was not executed: %s", desk.subject.key, desk.run.run_id, clean(sentence, 300))
        desk.unusable(clean(sentence, 300))
        return _error(sentence)

    def _hint(self, call: Call) -> str:
        return "" if call.name in self._tools else f" The tools are: {', '.join(self._tools)}."


def _error(sentence: str, *, from_strangers: bool = False) -> str:
    answer = {"ok": False, "error": clean(sentence, 600)} | ({FROM_STRANGERS: ["error"]} if from_strangers else {})
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
