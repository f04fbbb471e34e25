"""What people say by annotation: its limits, how it is read, and how a value is remembered as served."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Literal

from fleetagent.domain.resource import Annotation
from fleetagent.domain.text import clean

MOST_FEEDBACK_CHARS = 2_000
"""So much of a message is told to the agent."""
MOST_COMMENT_CHARS = MOST_FEEDBACK_CHARS - 600
"""Beside a comment the agent is told which alert it is about."""
LONGEST_VALUE = 253
"""The status bounds bytes."""
ACKNOWLEDGEMENT = re.compile(r"^\s*(?:alert-)?(\d{1,12})\s*(?::\s*(.*))?$", re.DOTALL)

NAMES: dict[str, Annotation] = {
    "request": Annotation.REQUESTED_AT,
    "reset": Annotation.RESET_REQUESTED_AT,
    "message": Annotation.MESSAGE,
    "acknowledge": Annotation.ACKNOWLEDGE,
    "approve": Annotation.APPROVE,
    "reject": Annotation.REJECT,
}

OneWord = Literal["message", "acknowledge"]
ONE_WORD: Mapping[str, OneWord] = {"message": "message", "acknowledge": "acknowledge"}
"""Verbs whose annotation holds one word: a new one takes the place of one that may be unheard."""


def value_of(name: str, said: str) -> str:
    """How a value is remembered: itself, or its hash where it is long or somebody's words."""
    said = clean(said)
    if name != "message" and len(said.encode()) <= LONGEST_VALUE:
        return said
    return f"sha256:{hashlib.sha256(said.encode()).hexdigest()[:32]}"


def not_served_yet(name: str, stored: Mapping[str, Any]) -> str | None:
    """The annotation's text in a resource as the API server has it, while its status does not say that it was served.

    It may have been served all the same: the status follows when the run has ended.
    """
    said = (stored.get("metadata", {}).get("annotations") or {}).get(NAMES[name].value)
    if said is None:
        return None
    known = (stored.get("status") or {}).get(f"lastHandled{name.capitalize()}")
    return None if known == value_of(name, said) else str(said)
