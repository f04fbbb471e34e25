"""Which hosts a resource's URLs may name: whoever may write a FleetAgent must not reach what only the operator can."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fleetagent.errors import BadResource, TryLater

BEHIND_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Where clusters without IPv4 reach it: the last 32 bits are the address that is opened."""
DEFAULT_PORTS = {"http": 80, "https": 443}
LOOKUP_SECONDS = 5.0
LOOKUPS_AT_ONCE = 32
"""In threads of their own: one of a name server that is silent goes on for half a minute after nobody waits for it."""


class Reach:
    """Without a list, loopback and link-local addresses are refused, by name too; with a list, it is the whole rule.

    A name is looked up here and once more when it is opened: who can change an answer in between gets past this. Where
    resources are written by strangers, set the list.
    """

    def __init__(
        self,
        allowed_hosts: Collection[str] = (),
        *,
        lookup_seconds: float = LOOKUP_SECONDS,
        look_up: Callable[..., list[Any]] = socket.getaddrinfo,
    ) -> None:
        self._lookup_seconds = lookup_seconds
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(LOOKUPS_AT_ONCE, thread_name_prefix="lookup")
        self._under_way: dict[tuple[str, int], asyncio.Future[list[Any]]] = {}
        self._allowed = frozenset(_plain(entry) for entry in allowed_hosts)

    async def check(self, url: str, *, field: str, condition: str) -> None:
        """`BadResource` naming the field for a host that may not be opened; `TryLater` for one that has no address."""
        host, port = _host_and_port(url, field, condition)
        if self._allowed:
            if host not in self._allowed and f"{host}:{port}" not in self._allowed:
                because = "is not in the installation's FLEETAGENT_ALLOWED_HOSTS: name another, or have it added there"
                raise _refused(condition, field, host, because)
            return
        if any(_is_inside(address) for address in await self._addresses(host, port, field)):
            because = (
                "is a loopback or link-local address, which are not opened: name another, or have it put into "
                "the installation's FLEETAGENT_ALLOWED_HOSTS"
            )
            raise _refused(condition, field, host, because)

    async def _addresses(self, host: str, port: int, field: str) -> list[str]:
        try:
            async with asyncio.timeout(self._lookup_seconds):
                found = await asyncio.shield(self._looked_up(host, port))
        except TimeoutError as error:
            because = f"the name server says nothing of host {host!r} within {self._lookup_seconds:g} s"
            raise TryLater(f"{field}: {because}") from error
        except (OSError, UnicodeError) as error:
            raise TryLater(f"{field}: host {host!r} has no address ({error})") from error
        return [str(info[4][0]) for info in found]

    def _looked_up(self, host: str, port: int) -> asyncio.Future[list[Any]]:
        """One lookup of a name at a time, for all who wait for it: asking again would take one more thread."""
        place = host, port
        if place not in self._under_way:
            loop = asyncio.get_running_loop()
            lookup = loop.run_in_executor(self._threads, self._look_up, host, port, 0, socket.SOCK_STREAM)
            self._under_way[place] = lookup
            lookup.add_done_callback(lambda over: self._over(place, over))
        return self._under_way[place]

    def _over(self, place: tuple[str, int], lookup: asyncio.Future[list[Any]]) -> None:
        del self._under_way[place]
        if not lookup.cancelled():
            lookup.exception()  # whoever waited has heard of it; perhaps nobody did any more


def _plain(entry: str) -> str:
    """One spelling for each host: lower case, IPv6 without brackets, `host:port` kept."""
    host, bracket, port = entry.strip().lower().partition("]")
    return f"{host.removeprefix('[')}{port}" if bracket else host


def _host_and_port(url: str, field: str, condition: str) -> tuple[str, int]:
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise BadResource(condition, "BadURL", f"{field}: this is no URL that can be opened ({error})") from error
    if not parts.hostname:
        raise BadResource(condition, "BadURL", f"{field}: the URL names no host")
    return parts.hostname.lower(), port


def _refused(condition: str, field: str, host: str, because: str) -> BadResource:
    return BadResource(condition, "HostNotAllowed", f"{field}: host {host!r} {because}")


def _is_inside(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        behind = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in BEHIND_NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or behind or ip
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast
