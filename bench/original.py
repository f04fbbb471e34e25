"""What the design that came before this one costs in tokens: arithmetic, with every guess in its favour.

It asked the model every five minutes whatever had happened, kept about 250 tokens of each cycle, and summarised when
its prompt reached 30,000. Each cycle kept a (cut) tool result, so each was two requests at least: one that ends in a
call and one that ends the run. Guessed in its favour: it has our system prompt and schemas, no cycle takes more than
one call, its tool results were no longer than what it kept of them (one list of offers was 12,297), its summary has
1,000 tokens and never fails.
"""

from dataclasses import dataclass
from typing import Final

CYCLES_A_DAY: Final = 288
KEPT_TOKENS: Final = 250
BUDGET_TOKENS: Final = 30_000
OBSERVATION_TOKENS: Final = 67
CALL_AND_RESULT_TOKENS: Final = 209
REPLY_TOKENS: Final = 63
SUMMARY_TOKENS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Of so many days."""

    tokens: int
    requests: int
    summaries: int


def cost(days: int, fixed_tokens: int) -> Cost:
    """`fixed_tokens`: system prompt and tool schemas, as the model's server counts them."""
    history = tokens = summaries = 0
    for _ in range(days * CYCLES_A_DAY):
        if fixed_tokens + history + OBSERVATION_TOKENS > BUDGET_TOKENS:
            tokens += history + SUMMARY_TOKENS
            history, summaries = SUMMARY_TOKENS, summaries + 1
        first = fixed_tokens + history + OBSERVATION_TOKENS
        tokens += first + first + CALL_AND_RESULT_TOKENS + REPLY_TOKENS
        history += KEPT_TOKENS
    return Cost(tokens, days * CYCLES_A_DAY * 2 + summaries, summaries)
