"""Renting a machine: the body that we send, and what an answer says about whether it happened.

A create is not idempotent and may take effect whatever its answer looks like. So only what is certain is a no; all else
is `Unclear`, to be settled by the label.
"""

from fleetagent.adapters.vast.answer import Answer
from fleetagent.adapters.vast.errors import Meaning, key_refused, meaning
from fleetagent.adapters.vast.parse import ident
from fleetagent.domain.fleet import Order
from fleetagent.domain.model import JsonObject
from fleetagent.errors import Denied, FleetAgentError, TryLater, Unclear

LONGEST_LABEL = 256
LONGEST_ENV_TEXT = 256
LONGEST_ENV = 32_768
LONGEST_ONSTART = 4096
LONGEST_IMAGE = 1024
LEAST_DISK_GB = 8

_CODES = {Meaning.OFFER_GONE: "OfferGone", Meaning.REFUSED: "OrderRefused"}
_MONEY_CODES = {"spend_rate_limit": "SpendRateLimit", "missing_billing": "MissingBilling"}
NO_CREDIT = frozenset({"InsufficientCredit", "MissingBilling"})
"""Codes of a refusal that the account's owner ends by paying."""


def body_for(order: Order) -> JsonObject:
    """The request. `Denied` for an order that the market would not take, named before anything is sent."""
    if because := _unfit(order):
        raise Denied("OrderRefused", because)
    body: JsonObject = {
        "client_id": "me",
        "image": order.image,
        "disk": order.disk_gb,
        "label": order.label,
        "env": dict(order.env),  # an object: a string of flags is taken and not applied
        "runtype": "args",  # keeps the image's entrypoint
        "cancel_unavail": True,  # else an offer that can't start becomes a stopped machine that bills its disk
        "target_state": "running",
    }
    return body | ({"onstart": order.onstart} if order.onstart else {})


def rented_id(answer: Answer) -> str:
    """The id of the new machine; raises what `Market.launch` promises for every other answer."""
    machine = ident(answer.fields.get("new_contract"))
    means = meaning(answer)
    if means is Meaning.FINE and machine:
        return machine
    if machine:  # an error that names a machine: it exists
        raise Unclear(f"{answer.said}, and yet names machine {machine}", provider_id=machine)
    raise _refusal(answer, means)


def _refusal(answer: Answer, means: Meaning) -> FleetAgentError:
    match means:
        case Meaning.AUTH:
            return key_refused(answer)
        case Meaning.TOO_OFTEN:
            return TryLater(answer.said, retry_after_seconds=answer.retry_after_seconds)
        case Meaning.OFFER_GONE | Meaning.NO_MONEY | Meaning.REFUSED:
            return Denied(_code(answer, means), answer.said)
        case _:
            return Unclear(f"{answer.said}; it names no machine")


def _code(answer: Answer, means: Meaning) -> str:
    if means is Meaning.NO_MONEY:
        return _MONEY_CODES.get(answer.code, "InsufficientCredit")
    return _CODES[means]


def _unfit(order: Order) -> str | None:
    """Names the part of the order that is too long; never a value of the environment, which may be secret."""
    sizes = (
        ("the label", len(order.label), LONGEST_LABEL),
        ("the image's name", len(order.image), LONGEST_IMAGE),
        ("onstart", len(order.onstart), LONGEST_ONSTART),
        *((f"environment variable {name[:64]}", len(value), LONGEST_ENV_TEXT) for name, value in order.env.items()),
        *((f"the name {name[:64]}", len(name), LONGEST_ENV_TEXT) for name in order.env),
        ("the environment", sum(len(name) + len(value) for name, value in order.env.items()), LONGEST_ENV),
    )
    if order.disk_gb < LEAST_DISK_GB:
        return f"the disk has less than {LEAST_DISK_GB} GB"
    return next((f"{what} has more than {most} characters" for what, size, most in sizes if size > most), None)
