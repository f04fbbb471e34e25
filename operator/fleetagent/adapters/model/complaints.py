"""The errors that leave this adapter, each with what its reader can do about it. Pure."""

from dataclasses import dataclass

from fleetagent.adapters.model.verdicts import Judgement
from fleetagent.errors import BadReply, BadResource, FleetAgentError

CONDITION = "ModelAvailable"
NAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Whom we talk to, as far as sentences need it; `url` without user and password."""

    url: str
    model: str
    has_key: bool


def halted(judgement: Judgement, said: str, endpoint: Endpoint, offered: tuple[str, ...]) -> FleetAgentError:
    """What the owner of the resource should read; filtered content concerns this run only."""
    if judgement.reason == "ContentFiltered":
        return BadReply(f"the model server's content filter stopped the reply: {said}")
    sentence = {
        "KeyRefused": _key_refused(endpoint),
        "KeyMayNotUseModel": f"the API key may not use model {endpoint.model}: have it allowed, or change "
        "spec.model.name or spec.model.apiKeySecretRef",
        "QuotaExceeded": "quota or credit at the model server is used up: raise it there, or wait until it is renewed",
        "ModelNotFound": f"the server has no model {endpoint.model}{_offer(offered)}; set spec.model.name",
        "BadURL": f"{endpoint.url} has no chat completions: correct spec.model.baseURL, which mostly ends in /v1",
        "ToolsUnsupported": f"{endpoint.model} can't call tools on this server: choose another in spec.model.name, or "
        "start the server with tool calling (vLLM: --enable-auto-tool-choice and --tool-call-parser)",
        "CertificateRefused": f"the TLS certificate of {endpoint.url} can't be verified: correct it, or "
        "spec.model.baseURL",
    }[judgement.reason]
    return BadResource(CONDITION, judgement.reason, f"{sentence}. It said: {said}")


def parameter_refused(name: str, said: str) -> BadResource:
    """The server takes no such parameter, or not this value, and the resource asks for it."""
    where = "spec.model.maxOutputTokens" if name.startswith("max_") else f"spec.model.parameters.{name}"
    return BadResource(CONDITION, "BadParameters", f"the model server refuses {where}: change or remove it. {said}")


def _key_refused(endpoint: Endpoint) -> str:
    if endpoint.has_key:
        return "the model server refuses the API key: put a valid one into the Secret of spec.model.apiKeySecretRef"
    return "the model server wants an API key: name a Secret in spec.model.apiKeySecretRef"


def _offer(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"; it offers {', '.join(names[:NAMES_SHOWN])}{more}"
