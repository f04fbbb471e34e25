"""What fits the token budget.

Numbers are tokens. An estimate is what `count` says; a projection is an estimate corrected by what the server reported.
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fleetagent.domain.model import JsonObject
from fleetagent.domain.text import cut

Count = Callable[[str], int]
"""Estimates the tokens of a text. Old messages keep their bytes, so a cache keyed by the text hits."""

MESSAGE_OVERHEAD: Final = 5
"""Role markers, measured on ChatML."""
REQUEST_OVERHEAD: Final = 8
"""The generation prompt."""
CAUTIOUS_RATIO: Final = 1.15
SMALLEST_WINDOW: Final = 2_000
"""A server that says its window is smaller than the smallest budget allowed is not believed."""
_CALL_OVERHEAD = 10  # the frame of a call in the template
LOWEST_RATIO: Final = 0.6
"""No tokenizer is known that makes less of our prompts: a lower count is one of a prompt that was cut off."""
HIGHEST_RATIO: Final = 3.0
_WEIGHT_OF_THE_NEWEST = 0.3
_LEAST_TAIL_TOKENS, _FULL_TAIL_TOKENS = 100, 500
_FRAME_DOUBT = 10  # tokens
_DOUBT = 0.1  # how far the ratio of one text may be from that of the whole
_FEEDBACK_PERCENT = 15
_CHARS_PER_TOKEN_AT_MOST = 16
_NO_ROOM = "\n(There is no room for the rest.)"


@dataclass(frozen=True, slots=True)
class Budget:
    """The resource's `tokenBudget`, and what of it the next reply and this run's tool results will need."""

    total: int
    reply: int
    tool_results: int

    @property
    def before_a_run(self) -> int:
        """The largest first request of a run: its tool results are still to come."""
        return max(self.total - self.reply - self.tool_results, 0)

    @property
    def within_a_run(self) -> int:
        """The largest request once tool results have begun to use their share."""
        return max(self.total - self.reply, 0)

    @property
    def summary_cap(self) -> int:
        """The longest summary worth its place."""
        return max(self.total // 15, 200)

    @property
    def feedback_cap(self) -> int:
        """How much of people's words survives a compaction."""
        return self.total * _FEEDBACK_PERCENT // 100


@dataclass(frozen=True, slots=True)
class Anchor:
    """One request: what the server counted, and what we had estimated. Void after a compaction."""

    reported: int
    estimated: int


def nearest(anchors: Sequence[Anchor], estimate_now: int) -> Anchor | None:
    """The one from which there is least to estimate."""
    return min(anchors, key=lambda a: abs(estimate_now - a.estimated), default=None)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far our estimate is off for one endpoint and model: moving averages of reported / estimated.

    `ratio` is that of whole requests, with all that a template adds; `tail` that of what was added to one, where it is
    known: on what is added to a request, a template's fixed text has no part.
    """

    ratio: float = 1.0
    samples: int = 0
    tail: float | None = None

    @property
    def of_a_tail(self) -> float:
        """The ratio of what comes to a request, or leaves it."""
        return self.ratio if self.tail is None else self.tail

    def learn(self, estimated: int, reported: int | None) -> "Calibration":
        """Take in one request; what a server did not count, or counted as zero, teaches nothing."""
        if not reported or reported < 0 or estimated <= 0:
            return self
        weight = _WEIGHT_OF_THE_NEWEST if self.samples else 1.0
        ratio = _moved(self.ratio, reported / estimated, weight)
        return replace(self, ratio=ratio, samples=self.samples + 1)

    def learn_tail(self, before: Anchor, now: Anchor) -> "Calibration":
        """Take in what was added to a request; a few tokens say little, and nothing alone."""
        added = now.estimated - before.estimated
        if added < _LEAST_TAIL_TOKENS:
            return self
        weight = _WEIGHT_OF_THE_NEWEST * min(added / _FULL_TAIL_TOKENS, 1.0) if self.tail is not None else 1.0
        return replace(self, tail=_moved(self.of_a_tail, (now.reported - before.reported) / added, weight))

    def project(self, estimate_now: int, anchor: Anchor | None = None) -> int:
        """What the server will count: its last figure and our estimate of the rest, else a careful guess."""
        if anchor is None:
            return math.ceil(estimate_now * max(self.ratio, CAUTIOUS_RATIO))
        projected = anchor.reported + (estimate_now - anchor.estimated) * self.of_a_tail
        return math.ceil(max(projected, estimate_now * LOWEST_RATIO))

    def expected(self, estimate_now: int, anchor: Anchor | None = None) -> float:
        """The least that a server which counted as before would count; without the care that a guess needs."""
        plain = estimate_now * self.ratio
        if anchor is None:
            return plain
        return min(plain, anchor.reported + (estimate_now - anchor.estimated) * self.of_a_tail)

    def at_least(self, ratio: float) -> "Calibration":
        """Take in a proof that the server makes no less of our estimates than this."""
        if ratio <= self.ratio:
            return self
        return replace(self, ratio=min(ratio, HIGHEST_RATIO), samples=max(self.samples, 1))

    def at_most(self, estimate_now: int) -> int:
        """What a server will hardly exceed, when nothing of the prompt was counted yet."""
        return self._likely_most(estimate_now) if self.samples else math.ceil(estimate_now * HIGHEST_RATIO)

    def doubt(self, estimate_now: int, anchor: Anchor | None = None, *, exchanged: int = 0, frames: int = 0) -> int:
        """How many tokens more than projected it may be, for all we know: what was never counted is uncertain.

        `exchanged` is the estimate of what went and what came in its place, `frames` the messages and calls that came:
        what a template writes around each is anybody's guess.
        """
        if anchor is None:
            return max(self._likely_most(estimate_now) - self.project(estimate_now), 0)
        uncounted = abs(estimate_now - anchor.estimated) + exchanged
        return math.ceil((uncounted * _DOUBT + frames * _FRAME_DOUBT) * self.of_a_tail)

    def _likely_most(self, estimate_now: int) -> int:
        return math.ceil(estimate_now * self.ratio * (1 + _DOUBT))


def _moved(average: float, seen: float, weight: float) -> float:
    return average + weight * (min(max(seen, LOWEST_RATIO), HIGHEST_RATIO) - average)


def message_tokens(wire_message: JsonObject, count: Count) -> int:
    """The estimate for one message as it goes on the wire."""
    calls = [call["function"] for call in wire_message.get("tool_calls", ())]
    in_calls = sum(count(f["name"]) + count(f["arguments"]) + _CALL_OVERHEAD for f in calls)
    return count(wire_message["content"]) + in_calls + MESSAGE_OVERHEAD


def schema_tokens(tools: Iterable[JsonObject], count: Count) -> int:
    """The estimate for the tool schemas, which the template writes into the system block of every request."""
    return sum(count(json.dumps(tool, ensure_ascii=False)) for tool in tools)


def request_estimate(messages: Iterable[JsonObject], tools: Iterable[JsonObject], count: Count) -> int:
    """The estimate for a whole request: messages, calls, schemas and what the template adds."""
    return sum(message_tokens(m, count) for m in messages) + schema_tokens(tools, count) + REQUEST_OVERHEAD


def rooms_for_tool_results(
    texts: Sequence[str], budget: Budget, projected_tokens: int, calibration: Calibration, count: Count
) -> tuple[int, ...]:
    """The estimate that each result may have, when the request with their calls projects to so many tokens.

    Small results take what they need; large ones share the rest equally.
    """
    left = int((budget.within_a_run - projected_tokens) / max(calibration.of_a_tail, CAUTIOUS_RATIO))
    left = max(left - MESSAGE_OVERHEAD * len(texts), 0)
    too_long = left * _CHARS_PER_TOKEN_AT_MOST
    wanted = [left if len(text) > too_long else min(count(text), left) for text in texts]
    rooms = [0] * len(texts)
    smallest_first = sorted(range(len(texts)), key=wanted.__getitem__)
    for served, place in enumerate(smallest_first):
        rooms[place] = min(wanted[place], left // (len(texts) - served))
        left -= rooms[place]
    return tuple(rooms)


def fit_tool_result(text: str, room_tokens: int, count: Count) -> str:
    """The whole result, or as much of its beginning as there is room for, saying so."""
    if len(text) <= room_tokens * _CHARS_PER_TOKEN_AT_MOST and count(text) <= room_tokens:
        return text
    return fit(text, room_tokens - count(_NO_ROOM), count) + _NO_ROOM


def fit(text: str, room_tokens: int, count: Count) -> str:
    """As much of the beginning as fits, with the mark of a cut when that is not all; at least the mark."""
    longest = max(room_tokens, 0) * _CHARS_PER_TOKEN_AT_MOST
    if len(text) <= longest and count(text) <= room_tokens:
        return text
    fits, too_many = 0, min(len(text), longest + 1)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if count(cut(text, middle)) <= room_tokens:
            fits = middle
        else:
            too_many = middle
    return cut(text, fits)
