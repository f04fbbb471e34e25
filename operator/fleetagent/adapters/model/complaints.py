"""The errors that leave this adapter, each with what its reader can do about it. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from fleetagent.adapters.model.verdicts import Judgement
from fleetagent.errors import BadResource, ModelLoading, TryLater

CONDITION = "ModelAvailable"
NAMES_SHOWN = 20
USELESS = {
    "Empty": "no text and no tool call",
    "NoChoices": "no choices",
    "NotJSON": "no JSON",
    "Endless": "more than any reply can be",
    "WebPage": "no JSON but a web page (see that spec.model.baseURL leads to the model server, past any login page)",
}
"""What came with status 200 and is no reply."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Whom we talk to, as far as sentences need it; `url` without user and password."""

    url: str
    model: str
    has_key: bool


def halted(judgement: Judgement, said: str, endpoint: Endpoint, offered: tuple[str, ...]) -> BadResource:
    """What the owner of the resource should read."""
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


def filtered(said: str) -> str:
    """Filtered content concerns this run only."""
    return f"the model server's content filter stopped the reply: {said}"


def not_now(reason: str, message: str, retry_after_seconds: float | None) -> TryLater:
    """The server is not available; that it loads its model is told apart."""
    if reason == "ModelLoading":
        return ModelLoading(message, retry_after_seconds=retry_after_seconds)
    remedy = " (a higher limit there helps, or a longer spec.schedule.interval)" if reason == "RateLimited" else ""
    return TryLater(f"{message}{remedy}", retry_after_seconds=retry_after_seconds)


def until(epoch: float) -> str:
    """A moment as people read it."""
    return f"before {datetime.fromtimestamp(epoch, UTC):%Y-%m-%d %H:%M:%S} UTC"


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
