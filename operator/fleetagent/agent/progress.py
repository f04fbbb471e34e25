"""When a conversation goes nowhere: bounds on what a model may repeat within one run."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fleetagent.domain.conversation.calls import Call

MOST_SAME_CALLS = 3
MOST_CUT_OFF = 1
MOST_USELESS_ANSWERS = 3
MOST_CALLS = 48
CUT_OFF_TWICE = "the model's answer was cut off twice: raise spec.model.maxOutputTokens"
REMEDY = "if this lasts, see that the model server's tool parser fits the model"
OVER_THE_LIMIT = f"Not executed: {MOST_CALLS} calls without an effect are the limit of a run. End this run now."


@dataclass(slots=True)
class Progress:
    """What a model has asked for in this run since its last effect, and how often it gave nothing usable."""

    calls: int = 0
    effects: int = 0
    cut_off: int = 0
    useless: int = 0
    made: Counter[str] = field(default_factory=Counter)

    def within_limit(self, calls: Sequence[Call]) -> tuple[Call, ...]:
        """The same calls; those beyond the limit of a run may not be executed."""
        left = max(MOST_CALLS - self.calls, 0)
        return (*calls[:left], *(replace(c, arguments=None, problem=OVER_THE_LIMIT) for c in calls[left:]))

    def stuck_after(
        self, calls: Sequence[Call], *, cut_off: bool, unusable: int, effects: int, last: str
    ) -> str | None:
        """Why the run should end after this answer, or None.

        `unusable` of these calls could not be executed at all, `last` says why; `effects` is how many the run had by
        now. After an effect all counts anew: plan, launch, plan, launch is no repetition, and guardrails bound effects.
        """
        self.calls += len(calls)
        self.cut_off += cut_off
        self.useless += unusable >= len(calls)
        if effects > self.effects:
            self.effects, self.calls = effects, 0
            self.made.clear()
        self.made.update({f"{c.name} {json.dumps(c.arguments, sort_keys=True)}" for c in calls})
        if self.cut_off > MOST_CUT_OFF:
            return CUT_OFF_TWICE
        if self.useless > MOST_USELESS_ANSWERS:
            return f"{self.useless} answers held no call that could be executed; {REMEDY}. The last: {last}"
        name, times = next(iter(self.made.most_common(1)), ("", 0))
        if times > MOST_SAME_CALLS:
            return f"the same call was made {times} times: {name.partition(' ')[0]}"
        return f"{self.calls} calls without an effect are too many" if self.calls > MOST_CALLS else None
