"""Canned answers that a test puts in front of the policy, and the faults that it asks for."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fleetagent.sim.model.faults import CATALOGUE, Fault
from fleetagent.sim.model.replies import Answer, Hang, Reply, assistant, tool_call


class BadScriptError(ValueError):
    """What a test asked for is not understood: said to the test at once, never guessed."""


@dataclass(frozen=True, slots=True)
class Canned:
    """One scripted answer; without `answer` the policy speaks, after the delay."""

    answer: Reply | Answer | Hang | None
    delay_seconds: float = 0.0


FORMS = ({"reply", "finish_reason"}, {"calls", "content", "finish_reason"}, {"status", "body", "headers"}, {"hang"})


def canned(entry: object) -> Canned:
    """Understand one entry: `reply` or `calls`, or `status`, or `hang`; each may have `delay_seconds`, alone too."""
    if not isinstance(entry, dict) or not entry:
        raise BadScriptError(f"an entry must be an object with something in it, not {entry!r}")
    delay = entry.get("delay_seconds", 0.0)
    if not isinstance(delay, int | float) or isinstance(delay, bool) or delay < 0:
        raise BadScriptError(f"delay_seconds must be a number, not {delay!r}")
    rest = {name: value for name, value in entry.items() if name != "delay_seconds"}
    if not any(rest.keys() <= form for form in FORMS):
        raise BadScriptError(f"these do not go together, or are unknown: {', '.join(sorted(rest))}")
    return Canned(_answer(rest), float(delay))


def _answer(entry: Mapping[str, Any]) -> Reply | Answer | Hang | None:
    if "reply" in entry:
        if not isinstance(entry["reply"], dict):
            raise BadScriptError("reply must be a choice message, an object")
        message = {"role": "assistant", **entry["reply"]}
        usual = "tool_calls" if message.get("tool_calls") else "stop"
        return Reply(message, entry.get("finish_reason", usual))
    if "calls" in entry:
        return _calling(entry)
    if "status" in entry:
        if not isinstance(entry["status"], int) or not 200 <= entry["status"] <= 599:
            raise BadScriptError(f"status must be an HTTP status, not {entry['status']!r}")
        headers = {str(name): str(value) for name, value in dict(entry.get("headers") or {}).items()}
        return Answer(entry["status"], entry.get("body", ""), headers)
    if entry.get("hang") is True:
        return Hang()
    if entry:
        raise BadScriptError(f"an entry needs reply, calls, status or hang: {', '.join(sorted(entry))}")
    return None


def _calling(entry: Mapping[str, Any]) -> Reply:
    """The short form: `{"calls": [{"name": "stop_instance", "arguments": {…}}]}`; arguments may be text as well."""
    reply = assistant(entry.get("content"))
    calls = []
    for call in entry["calls"]:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise BadScriptError(f"a call needs a name: {call!r}")
        arguments = call.get("arguments", {})
        if isinstance(arguments, str):
            calls.append(tool_call(call["name"], arguments))
        else:
            calls += assistant(None, (call["name"], arguments)).message["tool_calls"]
    return Reply({**reply.message, "tool_calls": calls}, entry.get("finish_reason", "tool_calls"))


@dataclass(frozen=True, slots=True)
class Armed:
    """A fault that waits for requests; `times` None stays until it is taken away. `after` so many others it begins."""

    fault: Fault
    times: int | None
    retry_after_seconds: float
    after: int = 0


class Script:
    """What comes next: faults first, then canned answers, then the policy."""

    def __init__(self) -> None:
        self._canned: deque[Canned] = deque()
        self._armed: deque[Armed] = deque()
        self.served: Counter[str] = Counter()

    def replace(self, entries: object) -> None:
        """Take a new list of canned answers; nothing changes if one of them is not understood."""
        if not isinstance(entries, list):
            raise BadScriptError("the script must be a list")
        self._canned = deque([canned(entry) for entry in entries])

    def arm(self, wish: object) -> None:
        """Add a fault, behind those that are armed already."""
        if not isinstance(wish, dict) or wish.keys() - {"name", "times", "after", "retry_after_seconds"}:
            raise BadScriptError("a fault is {name, times, after, retry_after_seconds}")
        name, times = wish.get("name"), wish.get("times", 1)
        if not isinstance(name, str) or name not in CATALOGUE:
            raise BadScriptError(f"no fault is called {name!r}; there are {', '.join(CATALOGUE)}")
        if times is not None and (not isinstance(times, int) or isinstance(times, bool) or times < 1):
            raise BadScriptError(f"times must be at least 1, or null for always, not {times!r}")
        after = wish.get("after", 0)
        if not isinstance(after, int) or isinstance(after, bool) or after < 0:
            raise BadScriptError(f"after must be a number of requests, not {after!r}")
        patience = wish.get("retry_after_seconds", 1.0)
        if not isinstance(patience, int | float) or patience < 0:
            raise BadScriptError(f"retry_after_seconds must be a number, not {patience!r}")
        self._armed.append(Armed(CATALOGUE[name], times, float(patience), after))

    def disarm(self) -> None:
        """Take all faults away."""
        self._armed.clear()

    def due_faults(self) -> tuple[Armed, ...]:
        """Those that may spoil this request, in order; those that begin later come a request nearer."""
        due = tuple(armed for armed in self._armed if armed.after == 0)
        self._armed = deque(
            armed if armed.after == 0 else replace(armed, after=armed.after - 1) for armed in self._armed
        )
        return due

    def count_served(self, served: Armed) -> None:
        """It did; it goes once it has done so as often as asked for."""
        self.served[served.fault.name] += 1
        if served.times is not None:
            place = self._armed.index(served)
            del self._armed[place]
            if served.times > 1:
                self._armed.insert(place, replace(served, times=served.times - 1))

    def next_canned(self) -> Canned | None:
        """The canned answer for this request, if any is left."""
        return self._canned.popleft() if self._canned else None

    @property
    def canned_left(self) -> int:
        """How many canned answers nobody asked for yet."""
        return len(self._canned)

    @property
    def armed(self) -> list[dict[str, Any]]:
        """The faults that wait, in order."""
        return [{"name": armed.fault.name, "times": armed.times} for armed in self._armed]
