"""The conversation as text: who said what in which run, and what of it the model does not see any more."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from fleetagent.plugin.pictures import DIM, Json
from fleetagent.plugin.terminal import line, plain, table

ROLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}


def transcript_picture(messages: Sequence[Json]) -> RenderableType:
    """Oldest first; what has left the prompt is said to have left it, and why."""
    if not messages:
        return Text("no messages")
    return Group(*(part for each in sorted(messages, key=lambda m: m["seq"]) for part in _message(each)))


def _message(each: Json) -> Iterator[RenderableType]:
    left = each.get("leftPromptBecause")
    title = Text(line(each["role"]), f"bold {ROLES.get(each['role'], '')}".strip())
    title.append(line(f"  {each['kind']}, run {each['runID']}, {each['at']}").join(("  ", "")), "not bold dim")
    if left:
        title.append(f"  left the prompt: {line(left)}", "yellow")
    yield title
    if each["content"]:
        yield Padding(Text(plain(each["content"]).rstrip(), DIM if left else ""), (0, 0, 0, 2))
    for call in each.get("toolCalls") or ():
        yield Padding(Text(_call(call), "bold"), (0, 0, 0, 2))
    if each.get("historyContent") is not None and not left:
        yield Padding(Text(f"later runs see: {line(each['historyContent'])}", DIM), (0, 0, 0, 2))


def _call(call: Json) -> str:
    """`launch_instance({"offer_id": "7"})`."""
    return line(f"{call['name']}({call['arguments']})")


def compactions_picture(compactions: Sequence[Json]) -> RenderableType:
    """What left the prompt at once, and why."""
    rows = []
    for each in compactions:
        why = each.get("because") or ""
        runs = ", ".join(map(str, each["runsLeft"])) or "none"
        rows.append([each["runID"], each["method"], each["tokensBefore"], each["tokensAfter"], runs, why])
    columns = ("RUN", "COMPACTION", "TOKENS BEFORE", "AFTER", "RUNS THAT LEFT", "BECAUSE")
    return table(columns, rows, right=("RUN", "TOKENS BEFORE", "AFTER"))
