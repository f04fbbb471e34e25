"""Whose label it is: the only thing by which a machine on the market is ours."""

import re

OF_ANY_AGENT = re.compile(r"fa/[0-9a-f]{12}/[A-Za-z0-9_-]{1,64}")
_INTENT = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_ours(label: str | None, prefix: str) -> bool:
    """Whether an agent with this prefix may have given it: exactly the prefix, then an intent's id and nothing else.

    What merely looks like it, with spaces, another case or more parts, was made by somebody else.
    """
    return label is not None and label.startswith(prefix) and _INTENT.fullmatch(label, len(prefix)) is not None


def is_any_agents(label: str | None) -> bool:
    """Whether some agent of some cluster may have given it."""
    return label is not None and OF_ANY_AGENT.fullmatch(label) is not None
