"""In what real servers differ when they refuse messages.

`rules` knows every rule that some server in the wild holds; a personality names those that one kind of server holds,
and says with which status its template refuses. What nobody can read is refused by all of them: see `parse`.
"""

from dataclasses import dataclass

PAIRS = frozenset({"orphan_result", "call_unanswered", "result_repeated"})
CALL_IDS = frozenset({"call_id_missing", "call_id_too_long", "call_id_repeated"})
EMPTY = frozenset({"empty_assistant", "null_content", "empty_content"})
ONE_SYSTEM = frozenset({"system_first", "late_system"})
ENDS = frozenset({"assistants_at_end", "last_message"})
UNION = PAIRS | CALL_IDS | EMPTY | ONE_SYSTEM | ENDS | {"list_content", "arguments", "no_user_message"}
"""What passes these passes every server but those that want alternation, or know no system role."""

TEMPLATE_RULES = frozenset(
    {"late_system", "no_user_message", "alternation", "system_role", "empty_assistant", "arguments"}
)
"""What a chat template refuses while it is rendered. Some servers call that a failure of their own, with 500."""


@dataclass(frozen=True, slots=True)
class Personality:
    """What one kind of server refuses."""

    name: str
    refuses: frozenset[str]
    """Names of rules."""

    template_status: int = 400
    """How it answers what its template refuses: 400, or 500 as if it had failed itself."""


PERSONALITIES = {
    personality.name: personality
    for personality in (
        Personality("strict", UNION),
        # One habit each, so that a test sees who needs which.
        Personality("refuses-null", frozenset({"null_content"})),
        Personality("refuses-empty", frozenset({"empty_content", "empty_assistant"})),
        Personality("refuses-lists", frozenset({"list_content"})),
        Personality("system-first", ONE_SYSTEM),
        Personality("needs-user", frozenset({"no_user_message"})),
        Personality("paired-tools", PAIRS | CALL_IDS | {"arguments"}),
        Personality("alternating", UNION | {"alternation"}),
        Personality("no-system", (UNION - ONE_SYSTEM) | {"system_role"}),
        # Whole servers, as far as they are known.
        Personality("openai", PAIRS | CALL_IDS),
        Personality("vllm", ONE_SYSTEM | {"no_user_message", "arguments", "assistants_at_end"}),
        Personality("llama.cpp", ONE_SYSTEM | {"no_user_message", "arguments", "empty_assistant"}, template_status=500),
        Personality("gemma", (UNION - ONE_SYSTEM) | {"alternation", "system_role"}),
    )
}
