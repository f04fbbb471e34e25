"""How many tokens an answer may take: what was asked for, more after cut-off thoughts, less when it does not fit.

Each pursuit has one of its own.
"""

SMALLEST_TOKENS = 256
MARGIN_TOKENS = 16  # some servers are a token stricter than their sentence


class Room:
    """The output tokens of the next call."""

    def __init__(self, tokens: int, most: int | None = None) -> None:
        self.tokens = tokens
        self._most = most
        self.has_grown = False
        self._has_shrunk = False

    def grow(self) -> None:
        """Up to twice as much, for reasoning to come to an end; unless the server had no room before."""
        larger = min(2 * self.tokens, self._most or 2 * self.tokens)
        if not self._has_shrunk and larger > self.tokens:
            self.tokens = larger
            self.has_grown = True

    def shrink(self, prompt_tokens: int | None, limit_tokens: int | None) -> bool:
        """Less, once, when the server's own figures say that the prompt alone fits; False: the prompt must shrink."""
        if self._has_shrunk or prompt_tokens is None or limit_tokens is None:
            return False
        left = limit_tokens - prompt_tokens - MARGIN_TOKENS
        if left < min(SMALLEST_TOKENS, self.tokens // 2):
            return False
        # A refusal although there is room enough: the server counts more than it says.
        self.tokens = left if left < self.tokens else self.tokens // 2
        self._has_shrunk = True
        return True
