"""Ports on 127.0.0.1 for servers that can't choose their own."""

import random
import socket
from collections.abc import Callable
from typing import TypeVar

from fleetagent.dev.servers import PortTaken
from fleetagent.errors import CannotStart

T = TypeVar("T")

HOST = "127.0.0.1"
ATTEMPTS = 20
# Below the range from which kernels take ports for outgoing connections: nobody gets one of these by chance.
LOWEST, HIGHEST = 20_000, 29_999


def on_a_free_port(start: Callable[[int], T]) -> T:
    """What `start` returns on a port that it could have; it says `PortTaken` where another process was faster."""
    taken: PortTaken | None = None
    for _ in range(ATTEMPTS):
        port = free_port()
        try:
            return start(port)
        except PortTaken as error:
            taken = error
    raise CannotStart(f"no free port after {ATTEMPTS} attempts") from taken


def free_port() -> int:
    """A port on which nobody listens now; somebody may a moment later."""
    candidates = random.SystemRandom().sample(range(LOWEST, HIGHEST + 1), k=ATTEMPTS)
    for port in filter(is_free, candidates):
        return port
    raise CannotStart(f"none of {ATTEMPTS} ports between {LOWEST} and {HIGHEST} is free")


def is_free(port: int) -> bool:
    """Whether nobody listens on it, and it can be had."""
    with socket.socket() as probe:
        if probe.connect_ex((HOST, port)) == 0:
            return False
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
