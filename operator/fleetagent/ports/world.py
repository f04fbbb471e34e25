"""What the agent needs of the world outside. The adapters of these stand in adapters/."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from fleetagent.domain.account import Account, PriceRise
from fleetagent.domain.demand import Demand
from fleetagent.domain.fleet import Offer, Order, Rented
from fleetagent.domain.model import ModelRequest, Reply
from fleetagent.domain.resource import FleetAgent, OfferFilter

MayBegin = Callable[[], Awaitable[None]]
"""Awaited after all waiting, just before an effect's request leaves; whatever it raises, nothing has been sent."""


DESTROYED_TOGETHER = 64
"""How many machines a market ends in one call."""


async def at_once() -> None:
    """May begin without a further look."""


class Market(Protocol):
    """Somewhere to rent machines, for one account. USD per hour means GPU and storage together."""

    async def account(self) -> Account:
        """Whose machines these are, and the money that is left. `TryLater`; `BadResource` for a key that is refused."""

    async def offers(self, wanted: OfferFilter, disk_gb: int) -> tuple[Offer, ...]:
        """What passes the filter now, each offer checked again by us, cheapest first. `TryLater`, `BadResource`."""

    async def offer(self, offer_id: str, disk_gb: int) -> Offer | None:
        """This offer as it is at this moment, or None when it is gone. `TryLater`, `BadResource`."""

    def buying(self) -> AbstractAsyncContextManager[None]:
        """Hold this while an offer is read, judged and rented: one buyer at a time for each account. `TryLater`."""

    async def launch(self, order: Order, may_begin: MayBegin = at_once) -> str:
        """Rent it once, return the market's id of the machine.

        `Denied`: certainly not rented. `TryLater`: the request was never sent. `Unclear`: it may have been rented
        (any error after sending, an answer without an id): find it by its label, never call again for the same label.
        """

    async def machines(self) -> tuple[Rented, ...]:
        """Every machine of the account, proved complete; anything less is `FleetUnreadable`.

        Perhaps as another agent saw it seconds ago, but never as it was before a launch or destroy of ours.
        """

    async def machine(self, provider_id: str) -> Rented | None:
        """Asked for this one machine; None when the market says that there is none. `TryLater`."""

    async def price_rises(self) -> tuple[PriceRise, ...] | None:
        """What hosts of this account's machines ask for, as it was minutes ago; None while that is not known."""

    async def destroy(self, provider_id: str, may_begin: MayBegin = at_once) -> None:
        """End it and its bill. To destroy what is gone already is no error. `TryLater` when not sure."""

    async def destroy_together(self, provider_ids: Sequence[str], may_begin: MayBegin = at_once) -> None:
        """As `destroy`, at most `DESTROYED_TOGETHER` in one call. `TryLater` also when one of them may be left."""


class DemandSource(Protocol):
    """Says whether there is work."""

    async def demand(self) -> Demand:
        """The demand now. `TryLater` when the source fails: unknown, not zero."""


class Model(Protocol):
    """One OpenAI-compatible endpoint and model."""

    async def reply(self, request: ModelRequest) -> Reply:
        """One answer, after the retries that make sense.

        `TryLater`: not available. `PromptTooLong`. `BadReply`: answered, but with nothing usable, or the request was
        refused for its shape. `BadPrompt`: nothing was sent. `BadResource`: key, model name, URL or quota.
        """

    async def context_window(self) -> int | None:
        """The window as the server names it, or named it when it refused a request; None while that is not known.

        Never fails, and waits for no more than seconds; what was asked once is remembered.
        """

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Exactly how many tokens this prompt is to the server, where it offers to count; None where not. As above."""


class Tokens(Protocol):
    """Estimates token counts without asking anybody."""

    def estimate(self, text: str) -> int:
        """About how many tokens this text is."""


class Cluster(Protocol):
    """The Kubernetes API, as far as an agent needs it."""

    async def secret(self, namespace: str, name: str, key: str) -> str:
        """One value of a Secret. `Denied` (SecretMissing, SecretKeyMissing, SecretForbidden), or `TryLater`."""

    async def secret_map(self, namespace: str, name: str) -> Mapping[str, str]:
        """All values of a Secret, as above."""

    async def patch_status(self, namespace: str, name: str, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Merge-patch the status subresource: what stands there then; None where the resource is gone. `TryLater`."""

    async def event(self, namespace: str, name: str, uid: str, *, kind: str, reason: str, message: str) -> None:
        """Write an Event of `kind` Normal or Warning about the resource; a failure is logged, never raised.

        The same Warning within a minute is only counted, and of too many at once some are left out, which is said.
        """

    async def installation_stop(self) -> str | None:
        """Why nothing may be launched or stopped at all now (ConfigMap `fleetagent-stop`), or None."""


class Worlds(Protocol):
    """What stands behind one FleetAgent's spec, its Secrets read afresh. `BadResource` names condition and remedy."""

    async def market(self, agent: FleetAgent) -> Market:
        """The market with this agent's key."""

    async def demand(self, agent: FleetAgent) -> DemandSource:
        """The one demand source that the spec names."""

    async def model(self, agent: FleetAgent) -> Model:
        """The model endpoint that the spec names."""

    async def instance_env(self, agent: FleetAgent) -> Mapping[str, str]:
        """The environment of a new machine, as spec and Secret give it. Never logged, never shown."""

    def forget(self, uid: str) -> None:
        """The resource with this uid is gone: keep nothing of its Secrets, and none of its series."""
