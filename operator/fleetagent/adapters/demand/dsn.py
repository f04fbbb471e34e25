"""A connection string that somebody else wrote: what it may say, and which hosts it names."""

import re
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from fleetagent.errors import BadResource

FIELD = "spec.demand.curio.dsnSecretRef"
LOOKS_LIKE = "it should look like postgresql://reader:password@host:5433/yugabyte"

HOST = re.compile(r"[A-Za-z0-9._:-]+")  # no path of a socket, nothing that a URL would read as its end
TAKEN = frozenset(
    {"host", "hostaddr", "port", "user", "password", "dbname", "sslmode", "sslnegotiation", "channel_binding"}
    | {"ssl_min_protocol_version", "ssl_max_protocol_version", "sslsni", "target_session_attrs", "load_balance_hosts"}
)
PASSED_OVER = frozenset(
    {"connect_timeout", "application_name", "fallback_application_name", "client_encoding", "tcp_user_timeout"}
    | {"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "gssencmode"}
)
"""Harmless, and decided by us."""

OURS = {
    "application_name": "fleetagent",
    "gssencmode": "disable",
    "options": "",  # pgbouncer refuses any
    # Whoever names a host of their own must not be sent what libpq finds on this machine: the operator's own
    # PGPASSWORD, ~/.pgpass or client certificate.
    "passfile": "/nonexistent/pgpass",
    "sslcertmode": "disable",
}


@dataclass(frozen=True, slots=True)
class Dsn:
    """Where to connect to and as whom. Its repr shows no password."""

    parameters: dict[str, Any] = field(repr=False)
    """For psycopg; all that libpq would otherwise take from this machine's environment is set."""

    addresses: tuple[str, ...]
    """Each host that may be opened, as a URL without user and path."""

    def without_password(self, text: str) -> str:
        """The text of a server or driver, in the unlikely case that it repeats what nobody may read."""
        password = str(self.parameters["password"])
        return text.replace(password, "…") if len(password) >= 4 else text


def read_dsn(text: str) -> Dsn:
    """The DSN of a Secret. `BadResource` says what is wrong and never repeats a part that could be the password."""
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(text.strip()).items() if value is not None}
    except (psycopg.Error, ValueError):  # their messages repeat parts of it
        raise _bad("is no connection string") from None
    for name in given.keys() - TAKEN - PASSED_OVER:
        if not (name == "sslrootcert" and given[name] == "system"):
            raise _bad(f"must not set {name}: leave it out")
    places = _places(given)
    if not given.get("user"):
        raise _bad("names no user")
    taken = {name: value for name, value in given.items() if name not in PASSED_OVER}
    usual = {"port": "5432", "dbname": given["user"], "password": ""}
    return Dsn({**usual, **taken, **OURS}, tuple(f"postgresql://{_in_brackets(host)}:{port}" for host, port in places))


def _places(given: dict[str, str]) -> list[tuple[str, int]]:
    """Host and port of every server, as libpq pairs them; what `hostaddr` says is what would be opened."""
    hosts = [(given.get("hostaddr") or given.get("host") or "").split(",")]
    if given.get("hostaddr") and given.get("host"):
        hosts.append(given["host"].split(","))
    ports = (given.get("port") or "5432").split(",")
    # An unescaped @ or / in the password moves its rest into host, port or name.
    if "@" in given.get("dbname", "") or not all(HOST.fullmatch(host) for part in hosts for host in part):
        raise _bad("names no usable host, and sockets are not opened")
    if not all(port.isascii() and port.isdigit() and 0 < int(port) < 65536 for port in (p or "5432" for p in ports)):
        raise _bad("names no usable port")
    if len(ports) == 1:
        ports *= len(hosts[0])
    if any(len(part) != len(ports) for part in hosts):
        raise _bad("names not as many ports as hosts")
    return [(host, int(port or "5432")) for host, port in zip(hosts[0], ports, strict=True)]


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _bad(because: str) -> BadResource:
    escaped = "with special characters of the password written as %40 for @, %2F for / and so on"
    return BadResource("DemandKnown", "BadDSN", f"{FIELD}: the Secret's value {because}; {LOOKS_LIKE}, {escaped}")
