"""One call: validate → tool → words for the model. Nothing that a model says is ever an exception."""

import json
import logging
from collections.abc import Sequence

from pydantic import ValidationError

from fleetagent.agent.desk import Desk
from fleetagent.agent.tools import Tool
from fleetagent.domain.calls import Call
from fleetagent.domain.text import clean
from fleetagent.errors import BadResource, Denied, TryLater, Unclear

log = logging.getLogger(__name__)


class Toolbox:
    """The tools that a model may call, in a fixed order: their schemas are part of every prompt's stable prefix."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.schemas = tuple(tool.schema() for tool in tools)

    async def answer(self, desk: Desk, call: Call) -> str:
        """The tool's result as compact JSON, or an error that says what to do instead."""
        if call.problem is not None:
            return _error(call.problem + self._hint(call))
        tool = self._tools.get(call.name)
        if tool is None:
            return _error(f"There is no tool named {clean(call.name, 64)!r}.{self._hint(call)}")
        given = call.arguments or {}
        if set(given) == {"arguments"} and isinstance(given["arguments"], dict):
            given = given["arguments"]  # some templates wrap them once more
        try:
            arguments = tool.arguments.model_validate(given)
        except ValidationError as error:
            return _error(f"{call.name}: {_first(error)}; nothing was done")
        try:
            result = await tool.answer(desk, arguments, call.id)
        except Unclear as doubt:
            desk.tools_failed += 1
            return _error(f"{call.name}: not clear whether it happened ({doubt}): look before you repeat it")
        except (TryLater, Denied, BadResource) as error:
            desk.tools_failed += 1
            log.info("%s run %s: %s: %s", desk.subject.key, desk.run.run_id, call.name, error)
            return _error(f"{call.name} is not possible now: {error}")
        return json.dumps(result, ensure_ascii=False, separators=(",", ":"), default=str)

    def _hint(self, call: Call) -> str:
        return "" if call.name in self._tools else f" The tools are: {', '.join(self._tools)}."


def _error(sentence: str) -> str:
    return json.dumps({"ok": False, "error": clean(sentence, 600)}, ensure_ascii=False, separators=(",", ":"))


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'arguments'}: {first['msg']}"
