"""Which hosts a resource's URLs may name: whoever may write a FleetAgent must not reach what only the operator can."""

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from fleetagent.errors import BadResource, TryLater


class Reach:
    """Without a list, loopback and link-local addresses are refused, by name too; with a list, it is the whole rule."""

    def __init__(self, allowed_hosts: Collection[str] = ()) -> None:
        self._allowed = frozenset(h.lower() for h in allowed_hosts)

    async def check(self, url: str, *, field: str, condition: str) -> None:
        """`BadResource` naming the field for a host that may not be opened; `TryLater` for one that has no address."""
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)
        if self._allowed:
            shown = f"[{host}]" if ":" in host else host
            if host not in self._allowed and f"{shown}:{port}" not in self._allowed:
                raise _refused(condition, field, host, "is not in the installation's FLEETAGENT_ALLOWED_HOSTS")
            return
        for address in await _addresses(host, port):
            if _is_inside(address):
                raise _refused(condition, field, host, "is a loopback or link-local address, which are not opened")


def _refused(condition: str, field: str, host: str, because: str) -> BadResource:
    return BadResource(condition, "HostNotAllowed", f"{field}: host {host!r} {because}")


async def _addresses(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise TryLater(f"host {host!r} has no address: {error}") from error
    return [str(info[4][0]) for info in found]


def _is_inside(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast
