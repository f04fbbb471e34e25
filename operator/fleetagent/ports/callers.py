"""What page and API ask of Kubernetes in a caller's name: the API server's RBAC is the only rule."""

from collections.abc import Mapping
from typing import Any, Protocol

from fleetagent.domain.records import AgentKey


class Callers(Protocol):
    """Everything goes out with the caller's own token, never with the operator's.

    `NotSignedIn` for a token that the API server does not know (any more), `NotAllowed` for what it refuses its owner,
    `TryLater` when the API server is not there.
    """

    async def name(self, token: str) -> str | None:
        """As whom the API server knows the caller, remembered shortly; None when it does not tell."""

    async def may_read(self, token: str, namespace: str) -> bool:
        """Whether the caller may `get fleetagents` in the namespace: a SelfSubjectAccessReview, remembered shortly.

        Of an empty namespace: in all of them.
        """

    async def may_steer(self, token: str, namespace: str) -> bool:
        """Whether the caller may `patch fleetagents` there; only for what is shown, the patch itself is the judge."""

    async def resource(self, token: str, key: AgentKey) -> Mapping[str, Any] | None:
        """The FleetAgent with spec and status as the API server has it; None when there is none."""

    async def resources(self, token: str, namespace: str) -> tuple[Mapping[str, Any], ...]:
        """All FleetAgents of the namespace (empty: of all), by one `list` in the caller's name."""

    async def patch(self, token: str, key: AgentKey, change: Mapping[str, Any]) -> None:
        """A merge patch of the FleetAgent.

        `BadRequest` when the API server refuses what it says, `Conflict` when it names a resourceVersion that is not
        the newest, or the FleetAgent is gone.
        """
