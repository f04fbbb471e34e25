"""What a server's count of a prompt is worth, and what it tells of the server. Pure.

A server may not count at all, count nonsense, or count only what it did not silently cut off. None of these may teach
us anything, and none may become the base from which the next request is projected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from fleetagent.domain.conversation.window import LOWEST_RATIO, Anchor, Calibration, nearest

ABSURD_TIMES: Final = 10
CLIPPED_BELOW: Final = 0.8
SURPRISING_ABOVE: Final = 1.5
_CLEARLY_GROWN = 0.03
_LEAST_GROWTH_TOKENS = 64
_LEAST_OF_THE_RATIO, _MOST_PER_TOKEN = 0.5, 3.2
"""What one token more of our estimate may be to a server that counts the whole prompt: texts differ."""


class Worth(StrEnum):
    """What to make of one count."""

    GOOD = "good"
    SURPRISING = "surprising"  # good, and far above what was projected: another tokenizer or template
    ANOTHER = "another"  # good, and far below: it moves with the prompt, so another model counts and none clips
    UNCOUNTED = "uncounted"  # nothing was said, or nothing that can be true
    CLIPPED = "clipped"  # the server read less than it was sent


@dataclass(frozen=True, slots=True)
class Clip:
    """A prompt that was cut off without a word: what the server counted, and what it was sent."""

    reported: int
    projected: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What the counts of one server and model told in one session; for others, and another vocabulary, they are void.

    `anchors` are the first and the newest good request of run `of_run`: the next run's first request mostly is like
    one of them. `newest` is the newest count of all, clipped ones too.
    """

    endpoint: str
    vocabulary: str
    of_run: int = 0
    anchors: tuple[Anchor, ...] = ()
    newest: Anchor | None = None
    window_tokens: int | None = None
    """The server's own window, where that is known to be smaller than the token budget."""
    clip: Clip | None = None
    uncounted: bool = False
    """Whether the newest reply came without a count."""

    def anchor(self, estimated: int, run_id: int) -> Anchor | None:
        """From where a request of this estimate is projected.

        Within the run that is its last request, to which this one adds; across runs the one that it is most like.
        """
        return self.anchors[-1] if self.anchors and self.of_run == run_id else nearest(self.anchors, estimated)

    def anchored(self, anchor: Anchor, run_id: int) -> "Counts":
        """With one more good request of this run."""
        first = self.anchors[:1] if self.of_run == run_id else ()
        return replace(self, of_run=run_id, anchors=(*first, anchor))

    def without_anchors(self) -> "Counts":
        """After what they counted is not there any more, or has proved wrong."""
        return replace(self, anchors=())

    def take(
        self, reported: int | None, estimated: int, calibration: Calibration, run_id: int
    ) -> tuple["Counts", Calibration, Worth]:
        """All that one reply teaches: its count, for the request of this estimate, and what the count was worth."""
        worth = self._worth(reported, estimated, calibration, run_id)
        count = believable(reported, estimated)
        if count is None:
            return replace(self, anchors=(), uncounted=True), calibration, worth
        seen = Anchor(count, estimated)
        known = replace(self, newest=seen, uncounted=False, clip=None)
        if worth is Worth.CLIPPED:
            projected = calibration.project(estimated, self.anchor(estimated, run_id))
            return replace(known, anchors=(), clip=Clip(count, projected)), calibration, worth
        if worth is Worth.ANOTHER:
            calibration = Calibration()
        elif self.of_run == run_id and self.anchors:
            calibration = calibration.learn_tail(self.anchors[-1], seen)
        return known.anchored(seen, run_id), calibration.learn(estimated, count), worth

    def _worth(self, reported: int | None, estimated: int, calibration: Calibration, run_id: int) -> Worth:
        count = believable(reported, estimated)
        if count is None:
            return Worth.UNCOUNTED
        if self._sticks(count, estimated):
            return Worth.CLIPPED
        anchor = self.anchor(estimated, run_id)
        if _is_low(count, estimated, calibration, anchor):
            if not self._moves_with_the_prompt(count, estimated, calibration.of_a_tail):
                return Worth.CLIPPED
            return Worth.ANOTHER if self.clip is not None else Worth.GOOD
        if calibration.samples and count > SURPRISING_ABOVE * calibration.project(estimated, anchor):
            return Worth.SURPRISING
        return Worth.GOOD

    def _sticks(self, count: int, estimated: int) -> bool:
        """The same figure for a prompt that has clearly grown."""
        if self.newest is None or count != self.newest.reported:
            return False
        return estimated - self.newest.estimated >= _clearly(self.newest.estimated)

    def _moves_with_the_prompt(self, count: int, estimated: int, ratio: float) -> bool:
        """Whether the count has changed as much as the prompt: one of a prompt that is cut off can't."""
        if self.newest is None:
            return False
        grown, more = estimated - self.newest.estimated, count - self.newest.reported
        if self.clip is not None and abs(grown) < _clearly(self.newest.estimated):
            return False
        least, most = sorted((_LEAST_OF_THE_RATIO * ratio * grown, _MOST_PER_TOKEN * grown))
        return least - _LEAST_GROWTH_TOKENS <= more <= most + _LEAST_GROWTH_TOKENS


def believable(reported: int | None, estimated: int) -> int | None:
    """What the server counted; None where it did not, or where that cannot be true."""
    if not reported or reported < 0 or reported > ABSURD_TIMES * max(estimated, 1):
        return None
    return reported


def counts_in(stored: Mapping[str, Any] | None) -> Counts | None:
    """The counts as they were stored; None for none, and for those of a version that wrote others."""
    if not stored:
        return None
    try:
        return Counts(
            endpoint=str(stored["endpoint"]),
            vocabulary=str(stored["vocabulary"]),
            of_run=int(stored["of_run"]),
            anchors=tuple(Anchor(**a) for a in stored.get("anchors", ())),
            newest=Anchor(**stored["newest"]) if stored.get("newest") else None,
            window_tokens=stored.get("window_tokens"),
            clip=Clip(**stored["clip"]) if stored.get("clip") else None,
            uncounted=bool(stored.get("uncounted")),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _is_low(count: int, estimated: int, calibration: Calibration, anchor: Anchor | None) -> bool:
    """Lower than any tokenizer explains, or than this one's counts so far."""
    if not calibration.samples:
        return count < LOWEST_RATIO * estimated
    return count < CLIPPED_BELOW * calibration.expected(estimated, anchor)


def _clearly(tokens: int) -> float:
    return max(_LEAST_GROWTH_TOKENS, _CLEARLY_GROWN * tokens)
