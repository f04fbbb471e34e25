"""What can go wrong between the terminal and the servers, beside the failures that all parts name."""

from fleetagent.errors import FleetAgentError


class NotFound(FleetAgentError):  # noqa: N818  # the name is the answer
    """There is no such thing; the message says which, and where one would look."""


class WayGone(FleetAgentError):  # noqa: N818  # the name is the answer
    """The port-forward has ended: whoever listens at its port now may be anybody, and must not be shown the token."""
