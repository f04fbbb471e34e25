"""Chance without history: a draw depends on the seed and on what it is for, never on what was drawn before."""

import math
from random import Random


class Draws:
    """All randomness of one market."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def of(self, *about: object) -> Random:
        """The random source of one thing: the same for the same seed and names, whatever else has happened."""
        return Random(":".join(map(str, (self.seed, *about))))


def lognormal(source: Random, median: float, sigma: float) -> float:
    """A positive number, half of the time below the median."""
    return median * math.exp(source.gauss(0.0, sigma))
