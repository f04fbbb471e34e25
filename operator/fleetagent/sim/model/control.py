"""What tests and people ask and tell the server, apart from /v1 and without a key."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetagent.sim.model.faults import CATALOGUE
from fleetagent.sim.model.replies import Answer
from fleetagent.sim.model.script import BadScriptError
from fleetagent.sim.model.thinking import Model
from fleetagent.sim.model.wire import respond

Handler = Callable[[Request], Awaitable[Response]]


def control_routes(model: Model) -> list[Route]:
    """The routes under /_sim."""

    async def requests(http: Request) -> Response:
        after = http.query_params.get("after", "0")
        if not after.isdecimal():
            return respond(Answer(400, {"detail": f"after must be a number, not {after!r}"}))
        return respond(Answer(200, [exchange.as_json() for exchange in model.recorder.since(int(after))]))

    async def state(_: Request) -> Response:
        return respond(Answer(200, state_of(model)))

    async def put_config(http: Request) -> Response:
        wish = await _json(http)
        if not isinstance(wish, dict):
            raise BadScriptError("the config is an object")
        try:
            model.config = model.config.changed(wish)
        except ValueError as error:
            raise BadScriptError(str(error)) from error
        return respond(Answer(200, state_of(model)))

    async def hold(http: Request) -> Response:
        if http.method == "PUT":
            model.hold()
        else:
            model.release()
        return respond(Answer(200, state_of(model)))

    return [
        Route("/_sim/requests", requests),
        Route("/_sim/state", state),
        Route("/_sim/config", _refusing(put_config), methods=["PUT"]),
        Route("/_sim/hold", hold, methods=["PUT", "DELETE"]),
        *_script_routes(model),
    ]


def _script_routes(model: Model) -> list[Route]:
    """What comes instead of the policy's answers."""

    async def put_script(http: Request) -> Response:
        model.script.replace(await _json(http))
        return respond(Answer(200, state_of(model)))

    async def put_fault(http: Request) -> Response:
        model.script.arm(await _json(http))
        return respond(Answer(200, state_of(model)))

    async def delete_faults(_: Request) -> Response:
        model.script.disarm()
        return respond(Answer(200, state_of(model)))

    async def catalogue(_: Request) -> Response:
        return respond(
            Answer(
                200, [{"name": fault.name, "server": fault.server, "what": fault.what} for fault in CATALOGUE.values()]
            )
        )

    return [
        Route("/_sim/script", _refusing(put_script), methods=["PUT"]),
        Route("/_sim/faults", catalogue),
        Route("/_sim/faults", _refusing(put_fault), methods=["PUT"]),
        Route("/_sim/faults", delete_faults, methods=["DELETE"]),
    ]


def state_of(model: Model) -> dict[str, Any]:
    """Counts since the start, and what is going on now."""
    recorder, script = model.recorder, model.script
    return {
        "scripted": True,
        "model": model.config.model,
        "context_window": model.config.context_window,
        "personality": model.config.personality.name,
        "counter": model.config.counter,
        "counts_more": model.config.counts_more,
        "clips_at": model.config.clips_at,
        "requests": recorder.requests,
        "violations": recorder.by_rule.total(),
        "violations_by_rule": dict(recorder.by_rule),
        "overflows": recorder.overflows,
        "max_prompt_tokens": recorder.max_prompt_tokens,
        "last_prompt_tokens": recorder.last_prompt_tokens,
        "counter_calls": dict(recorder.counter_calls),
        "holding": model.holding,
        "held": model.waiting,
        "script_left": script.canned_left,
        "faults": script.armed,
        "faults_served": dict(script.served),
    }


async def _json(http: Request) -> object:
    try:
        return json.loads(await http.body())
    except ValueError as error:
        raise BadScriptError(f"no JSON: {error}") from error


def _refusing(handler: Handler) -> Handler:
    """What is not understood is said, with 400."""

    async def guarded(http: Request) -> Response:
        try:
            return await handler(http)
        except BadScriptError as error:
            return respond(Answer(400, {"detail": str(error)}))

    return guarded
