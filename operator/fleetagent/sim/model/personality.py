"""In what real servers differ when they refuse messages.

Everything else in `parse` and `rules` is demanded by all of them: it is the wire shape that no real server refuses.
An assistant message that calls tools and says nothing is where servers disagree: some refuse null, some refuse "".
Text that is not empty passes all of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Personality:
    """What one kind of server refuses on top of the common rules."""

    name: str
    refuses_null_content: bool
    """An assistant message without text needs a string all the same; null and a missing key are refused."""

    refuses_empty_content: bool
    """No message may have content of no or only white characters."""

    needs_alternation: bool
    """User and assistant take turns, tool calls and their results aside (templates of Mistral and Gemma)."""


PERSONALITIES = {
    personality.name: personality
    for personality in (
        # The default is a union: what passes it passes all but `alternating`.
        Personality("strict", refuses_null_content=True, refuses_empty_content=True, needs_alternation=False),
        Personality("openai", refuses_null_content=False, refuses_empty_content=False, needs_alternation=False),
        Personality("refuses-null", refuses_null_content=True, refuses_empty_content=False, needs_alternation=False),
        Personality("refuses-empty", refuses_null_content=False, refuses_empty_content=True, needs_alternation=False),
        Personality("alternating", refuses_null_content=True, refuses_empty_content=True, needs_alternation=True),
    )
}
