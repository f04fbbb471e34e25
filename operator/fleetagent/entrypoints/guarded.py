"""What a listener on the open internet puts up with: so many connections, so many of one peer, each for so long."""

import asyncio
import ipaddress
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 512
"""Each takes a file descriptor, of which the process needs some for its database, market and models."""
MOST_OF_A_PEER = 128
"""Behind an ingress all machines are one peer: it must be room enough for all of a large fleet's calls."""
PEOPLE_CONNECTED = 700
PEOPLE_OF_A_PEER = 600
"""Behind an ingress or a port-forward all people are one peer; hundreds of open pages have a stream each."""
LONGEST_SECONDS = 10.0
LARGEST_HEAD_BYTES = 16_384

QUIET = logging.getLogger(__name__)
QUIET.setLevel(logging.ERROR)
"""Strangers decide how often there is something to warn of."""


@dataclass(slots=True)
class Crowd:
    """Who is connected."""

    most: int = MOST_CONNECTIONS
    most_of_a_peer: int = MOST_OF_A_PEER
    longest_seconds: float = LONGEST_SECONDS
    """From the first byte to the last one of the answer; whoever is slower is hung up on. People: between requests."""
    _connections: Counter[str] = field(default_factory=Counter)

    def enter(self, peer: str) -> bool:
        """Whether one more is let in."""
        if self._connections.total() >= self.most or self._connections[peer] >= self.most_of_a_peer:
            return False
        self._connections[peer] += 1
        return True

    def leave(self, peer: str) -> None:
        """One is gone."""
        self._connections[peer] -= 1
        if self._connections[peer] <= 0:
            del self._connections[peer]


def peer_of(address: Any) -> str:
    """Whom an address stands for: of IPv6, a customer has 2**64."""
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    try:
        ip = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def guarded(crowd: Crowd) -> type[H11Protocol]:
    """HTTP for strangers: one request a connection, which ends in time whatever the other side does or leaves."""

    class Guarded(H11Protocol):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self.logger = QUIET
            self.access_log = False  # a path holds a machine's secret, and nobody's logging settings shall show it
            self._peer: str | None = None
            self._deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base does
            peer = peer_of(transport.get_extra_info("peername"))
            if not crowd.enter(peer):
                transport.abort()
                return
            self._peer = peer
            super().connection_made(transport)
            self._look_again()

        def _look_again(self) -> None:
            self._deadline = self.loop.call_later(crowd.longest_seconds, self._late)

        def _late(self) -> None:
            self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._peer is None:
                return
            crowd.leave(self._peer)
            if self._deadline is not None:
                self._deadline.cancel()
            super().connection_lost(exc)

    return Guarded


def patient(crowd: Crowd) -> type[H11Protocol]:
    """HTTP for people: an answer may last, as streams do; whoever asks for nothing for so long is hung up on."""

    class Patient(guarded(crowd)):  # type: ignore[misc]  # made for each crowd
        _before: object = None

        def _late(self) -> None:
            asked = self.cycle is not self._before  # each request has one
            if not asked and (self.cycle is None or self.cycle.response_complete):
                self.transport.abort()
                return
            self._before = self.cycle
            self._look_again()

    return Patient
