"""The order and content of messages, rule by rule: all that some real server refuses.

Which server holds which of them is said in `personality`.
Where a real server has words for a refusal, the sentence begins with them: clients know servers by their words.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from fleetagent.sim.model.conversation import Message, Violation
from fleetagent.sim.model.personality import Personality

LONGEST_CALL_ID = 40
Rule = Callable[[Sequence[Message]], Iterator[Violation]]


def broken_rules(messages: Sequence[Message], personality: Personality) -> Iterator[Violation]:
    """Every violation that this kind of server cares about, in the order of `RULES`."""
    for rule in RULES:
        yield from (violation for violation in rule(messages) if violation.rule in personality.refuses)


def system_comes_first_and_once(messages: Sequence[Message]) -> Iterator[Violation]:
    """Templates take one system message and look for it in one place."""
    if messages[0].role != "system":
        yield Violation("system_first", "the first message must be the system message", "messages.[0].role")
    for index, message in enumerate(messages[1:], start=1):
        if message.role == "system":
            yield Violation("late_system", "System message must be at the beginning.", f"messages.[{index}].role")


def no_system_role(messages: Sequence[Message]) -> Iterator[Violation]:
    """Templates of Gemma know users and models alone."""
    for index, message in enumerate(messages):
        if message.role == "system":
            yield Violation("system_role", "System role not supported", f"messages.[{index}].role")


def a_user_speaks(messages: Sequence[Message]) -> Iterator[Violation]:
    """A template that looks for the last user query fails without one, typically after a compaction."""
    if not any(message.role == "user" and (message.text or "").strip() for message in messages):
        yield Violation("no_user_message", "No user query found in messages.", "messages")


def assistants_say_something(messages: Sequence[Message]) -> Iterator[Violation]:
    """An assistant message has text or tool calls, and null is not text."""
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        where = f"messages.[{index}].content"
        if not message.calls and not (message.text or "").strip():
            yield Violation(
                "empty_assistant", "Assistant message must contain either 'content' or 'tool_calls'!", where
            )
        elif message.text is None:
            yield Violation("null_content", "expected a string, got null", where)


def no_text_is_empty(messages: Sequence[Message]) -> Iterator[Violation]:
    """Some servers turn content into blocks, and refuse empty blocks."""
    for index, message in enumerate(messages):
        if message.text is not None and not message.text.strip():
            yield Violation("empty_content", "text content blocks must be non-empty", f"messages.[{index}].content")


def call_ids_are_unique(messages: Sequence[Message]) -> Iterator[Violation]:
    """Ids are there, at most 40 characters long, and never used twice in a prompt."""
    seen: set[str] = set()
    for index, message in enumerate(messages):
        for number, call in enumerate(message.calls):
            where = f"messages.[{index}].tool_calls.[{number}].id"
            if not call.id:
                yield Violation("call_id_missing", "a call's `id` must not be empty", where)
            elif len(call.id) > LONGEST_CALL_ID:
                length = len(call.id)
                yield Violation("call_id_too_long", f"maximum length {LONGEST_CALL_ID}, but got {length}", where)
            elif call.id in seen:
                yield Violation("call_id_repeated", f"Duplicate value for 'tool_call_id' of '{call.id}'", where)
            seen.add(call.id)


def arguments_are_objects(messages: Sequence[Message]) -> Iterator[Violation]:
    """Engines parse the arguments of every earlier call to render the template."""
    for index, message in enumerate(messages):
        for number, call in enumerate(message.calls):
            if call.parsed() is None:
                where = f"messages.[{index}].tool_calls.[{number}].function.arguments"
                yield Violation("arguments", "Failed to parse tool call arguments as JSON object", where)


def calls_and_results_pair(messages: Sequence[Message]) -> Iterator[Violation]:
    """Each call is answered exactly once by the tool messages right after it; there are no other tool messages."""
    open_calls: Counter[str] = Counter()
    answered: set[str] = set()
    caller = 0
    for index, message in enumerate(messages):
        if message.role == "tool":
            if open_calls[message.answers] > 0:
                open_calls[message.answers] -= 1
                answered.add(message.answers)
            elif message.answers in answered:
                yield Violation("result_repeated", "this call was answered before", f"messages.[{index}].tool_call_id")
            else:
                sentence = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                yield Violation("orphan_result", sentence, f"messages.[{index}].role")
            continue
        yield from _unanswered(open_calls, caller)
        open_calls, answered, caller = Counter(call.id for call in message.calls), set(), index
    yield from _unanswered(open_calls, caller)


def _unanswered(open_calls: Counter[str], caller: int) -> Iterator[Violation]:
    missing = sorted(open_calls.elements())
    if missing:
        sentence = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. These did not have response messages: {', '.join(missing)}"
        )
        yield Violation("call_unanswered", sentence, f"messages.[{caller}].tool_calls")


def the_assistant_is_next(messages: Sequence[Message]) -> Iterator[Violation]:
    """The prompt ends with what is to be answered."""
    last = len(messages) - 1
    if messages[last].role in {"user", "tool"}:
        return
    if last and messages[last].role == messages[last - 1].role == "assistant":
        sentence = "Cannot have 2 or more assistant messages at the end of the list."
        yield Violation("assistants_at_end", sentence, f"messages.[{last}].role")
    else:
        yield Violation("last_message", "the last message must be a user's or a tool's", f"messages.[{last}].role")


def turns_alternate(messages: Sequence[Message]) -> Iterator[Violation]:
    """User, assistant, user: tool calls and their results do not count."""
    turn = "user"
    for index, message in enumerate(messages):
        if message.role in {"system", "tool"} or message.calls:
            continue
        if message.role != turn:
            sentence = "Conversation roles must alternate user/assistant/user/assistant/..."
            yield Violation("alternation", sentence, f"messages.[{index}].role")
            return
        turn = "assistant" if turn == "user" else "user"


RULES: tuple[Rule, ...] = (
    no_system_role,
    system_comes_first_and_once,
    a_user_speaks,
    assistants_say_something,
    no_text_is_empty,
    call_ids_are_unique,
    arguments_are_objects,
    calls_and_results_pair,
    the_assistant_is_next,
    turns_alternate,
)
