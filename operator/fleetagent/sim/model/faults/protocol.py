"""Protocol and template: what a server refuses in a request that others take."""

from fleetagent.sim.model.faults.moment import Fault, Moment
from fleetagent.sim.model.replies import Answer, detail, nested_error
from fleetagent.sim.model.rules import no_system_role, turns_alternate


def _template(status: int, message: str) -> Answer:
    kind = "BadRequestError" if status == 400 else "server_error"
    return nested_error(status, message, kind=kind, code=status)


NO_USER = "No user query found in messages."
LATE_SYSTEM = "System message must be at the beginning."


def _alternating(moment: Moment) -> Answer | None:
    """Only of a request that does not alternate."""
    broken = next(turns_alternate(moment.request.messages), None)
    return _template(400, broken.sentence) if broken else None


def _no_system(moment: Moment) -> Answer | None:
    broken = next(no_system_role(moment.request.messages), None)
    return _template(400, broken.sentence) if broken else None


def _unsupported(name: str, moment: Moment, advice: str = "") -> Answer | None:
    """OpenAI's words, for a request that has this parameter."""
    if name not in moment.request.fields:
        return None
    message = f"Unsupported parameter: '{name}' is not supported with this model.{advice}"
    return nested_error(400, message, kind="invalid_request_error", param=name, code="unsupported_parameter")


def _old_name(moment: Moment) -> Answer | None:
    return _unsupported("max_tokens", moment, " Use 'max_completion_tokens' instead.")


def _new_name(moment: Moment) -> Answer | None:
    """Old vLLM knows no other than the old name."""
    name = "max_completion_tokens"
    if name not in moment.request.fields:
        return None
    return _template(
        400, f"[{{'type': 'extra_forbidden', 'loc': ('body', '{name}'), 'msg': 'Extra inputs are not permitted'}}]"
    )


def _neither_name(moment: Moment) -> Answer | None:
    return _old_name(moment) or _new_name(moment)


def _fastapi(name: str, moment: Moment) -> Answer | None:
    if name not in moment.request.fields:
        return None
    complaint = {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}
    return detail(422, [{**complaint, "input": "auto"}])


def _held_to_json(moment: Moment, *, field: str = "content") -> Answer | None:
    """A format beside tools: the decoder is held to JSON, and calls never come."""
    if "response_format" not in moment.request.fields:
        return None
    message = {"content": None, field: '{"action": false, "state_changed": false}'}
    return moment.completed(message)


def _one_constraint(moment: Moment) -> Answer | None:
    if "response_format" not in moment.request.fields:
        return None
    return _template(400, "You can only use one kind of structured outputs constraint")


FAULTS = (
    Fault("A30", "vLLM", "no user message", lambda _: _template(400, NO_USER)),
    Fault("A30/llama.cpp", "llama.cpp", "the same as a 500", lambda _: _template(500, NO_USER)),
    Fault("A31", "vLLM", "a late system message", lambda _: _template(400, LATE_SYSTEM)),
    Fault("A31/llama.cpp", "llama.cpp", "the same as a 500", lambda _: _template(500, LATE_SYSTEM)),
    Fault("A32", "Gemma, Mistral", "roles must alternate", _alternating),
    Fault("A32/system", "Gemma", "no system role", _no_system),
    Fault("A33", "OpenAI, new models", "max_tokens is refused", _old_name),
    Fault("A33/mirror", "vLLM, old", "max_completion_tokens is refused", _new_name),
    Fault("A33/both", "none", "both names are refused", _neither_name),
    Fault("A34", "any", "tool_choice is unknown", lambda m: _unsupported("tool_choice", m)),
    Fault("A34/422", "FastAPI", "the same as a 422", lambda m: _fastapi("tool_choice", m)),
    Fault(
        "A34/temperature", "OpenAI", "what the resource asks for is refused", lambda m: _unsupported("temperature", m)
    ),
    Fault("A35", "vLLM", "a format beside tools: calls never come", _held_to_json),
    Fault("A35/reasoning", "vLLM", "the same among the thoughts", lambda m: _held_to_json(m, field="reasoning")),
    Fault("A35/constraint", "vLLM", "a format beside tools is refused", _one_constraint),
)
