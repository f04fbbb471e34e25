"""Ports for servers that are told theirs before they start, or that are to find nobody there.

A port that was merely free a moment ago may be anybody's when the server starts, some seconds later and perhaps again
and again: among two thousand tests that happens. So each test process has ports of its own, below those that the kernel
gives to whoever asks for any, and takes each of them once.
"""

import itertools
import os
import random
from collections.abc import Iterator

from fleetagent.dev.loopback import is_free

LOWEST = 10_000
"""`fleetagent.dev.loopback` has those from 20,000 on."""
PROCESSES, PORTS_EACH = 8, 1_200


def _ports() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PROCESSES
    first = LOWEST + worker * PORTS_EACH
    begin = random.SystemRandom().randrange(PORTS_EACH)  # another run on this machine begins elsewhere
    return itertools.cycle(first + (begin + n) % PORTS_EACH for n in range(PORTS_EACH))


_MINE = _ports()


def free_port() -> int:
    """A port on 127.0.0.1 that nobody has and that nobody else is given."""
    return next(filter(is_free, itertools.islice(_MINE, PORTS_EACH)))
