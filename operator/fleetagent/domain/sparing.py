"""Which Events are worth saying: a Warning not again within a minute, and no more than somebody could read."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable

from fleetagent.domain.allowance import Allowances

AT_ONCE, SECONDS_EACH = 40, 6.0
SAME_AGAIN_AFTER_S = 60.0
MOST_REMEMBERED = 10_000
MOST_NAMED = 6


class Sparing:
    """Decides for each resource by itself. Warnings have an allowance of their own: nothing ordinary takes it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._allowances = Allowances(AT_ONCE, SECONDS_EACH, clock)
        self._said: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()
        self._left_out: dict[Hashable, Counter[str]] = {}

    def words(self, about: Hashable, kind: str, reason: str, message: str) -> str | None:
        """What to say of it, or None; then `left_out` tells later what was not said."""
        now, same = self._clock(), (about, reason, hash(message))
        said_at, times = self._said.get(same, (now - SAME_AGAIN_AFTER_S, 0))
        if kind == "Warning" and now - said_at < SAME_AGAIN_AFTER_S:  # what is Normal has happened once more
            self._said[same] = (said_at, times + 1)
            return None
        if self._allowances.wait_seconds((about, kind)) > 0:
            self._left_out.setdefault(about, Counter())[reason] += 1
            return None
        self._said.pop(same, None)
        self._said[same] = (now, 0)
        if len(self._said) > MOST_REMEMBERED:
            self._said.popitem(last=False)
        return f"{message} (and {times} more times since this was said last)" if times else message

    def leaves_out(self, about: Hashable) -> bool:
        """Whether something was left out that nobody has been told of."""
        return about in self._left_out

    def left_out(self, about: Hashable) -> str:
        """What was left out since this was asked last, in a sentence."""
        reasons = self._left_out.pop(about, Counter())
        named = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common(MOST_NAMED))
        return f"{reasons.total()} Events were left out, there were too many at once: {named}"
