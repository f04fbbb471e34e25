"""How much of a prompt an engine with a prefix cache would not compute again."""

from collections import OrderedDict

from fleetagent.sim.model.count import Tokens

BLOCK_TOKENS = 16


class PrefixCache:
    """Blocks of 16 tokens, each known by itself and all that came before it; the longest unused leave first."""

    def __init__(self, *, blocks: int = 65_536) -> None:
        self._most = blocks
        self._seen: OrderedDict[int, None] = OrderedDict()

    def cached_tokens(self, prompt: Tokens) -> int:
        """How many tokens at the front of this prompt were seen before; the whole prompt is known from now on.

        The last token is always computed, since the answer comes from it.
        """
        cached, chain, hit = 0, 0, True
        for start in range(0, len(prompt) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
            chain = hash((chain, prompt[start : start + BLOCK_TOKENS].tobytes()))
            hit = hit and chain in self._seen and start + BLOCK_TOKENS < len(prompt)
            cached += BLOCK_TOKENS * hit
            self._seen[chain] = None
            self._seen.move_to_end(chain)
        while len(self._seen) > self._most:
            self._seen.popitem(last=False)
        return cached
