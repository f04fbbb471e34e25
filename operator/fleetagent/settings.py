"""What an installation may set, by environment variables; read once, when the process starts."""

import ipaddress
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from fleetagent.errors import CannotStart

Names = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    """Each field is the environment variable FLEETAGENT_<FIELD>; an empty one counts as not set."""

    model_config = SettingsConfigDict(env_prefix="FLEETAGENT_", frozen=True, env_ignore_empty=True, extra="ignore")

    database_url: SecretStr
    """As libpq takes it: postgresql://user:password@host:5432/fleetagent."""

    namespaces: Names = ()
    """Namespaces to watch, comma-separated; empty: all."""

    cluster: str = Field("default", min_length=1, max_length=253)
    """Name of this cluster; part of every machine's label, so two clusters on one market account need two names."""

    peering: str | None = Field(None, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    """Name of the peering by which replicas take turns: a ClusterKopfPeering, with `namespaces` a KopfPeering in each.
    Not set: this process is the only one. Who gives no sign for `lease_seconds` is passed over."""

    allowed_hosts: Names = ()
    """If set, the whole list of hosts that a resource's URLs may name, loopback too if listed; host or host:port."""

    web_listen: str = "127.0.0.1:8080"
    """host:port of page, API and /metrics."""

    web_url: str | None = None
    """The public base URL of `web_listen`, as browsers reach it by an ingress. With https://, cookies travel by TLS
    alone. Not set: by port-forward."""

    web_token: SecretStr | None = None
    """Nobody has to log in: whoever reaches `web_listen` reads and steers with this Kubernetes token. For a machine of
    one's own: `web_listen` must be loopback."""

    health_listen: str = "127.0.0.1:8081"
    """host:port of /healthz and /readyz."""

    worker_listen: str = "127.0.0.1:8082"
    """host:port that workers report to."""

    worker_url: str | None = None
    """The public base URL of `worker_listen`, as machines reach it. Not set: launches are refused."""

    log_format: Literal["json", "text"] = "text"
    """json or text."""

    lease_seconds: int = Field(15, ge=3, le=300)
    """How long this process owns an agent without renewing."""

    silent_seconds: float = Field(600, ge=4, le=3600)
    """How long a watch, the peering or the beat may not be heard of before /healthz says that the process is deaf."""

    beat_seconds: float = Field(60, ge=0.2, le=300)
    """How often each resource is gone through, although nothing happened. What is due comes when it is due."""

    look_seconds: float = Field(30, ge=0.2, le=3600)
    """How old the picture of a fleet may be while no run is due; without machines, 30 times as old."""

    settling_seconds: float = Field(300, ge=1, le=3600)
    """How long an intent that nobody has seen counts as a machine."""

    confirm_gone_seconds: float = Field(60, ge=0, le=3600)
    """How far apart the market must say twice that a machine is gone."""

    market_pacing: bool = True
    """Keep the market's minimum intervals between calls; off for the simulator."""

    database_pool: int = Field(10, ge=2, le=200)
    """Most database connections of this process, beside one for /readyz, one for the leases, and three for page and API
    while somebody looks."""

    @field_validator("namespaces", "allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(filter(None, (v.strip() for v in value.split(",")))) if isinstance(value, str) else value

    @field_validator("worker_url", "web_url")
    @classmethod
    def _base(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith(("http://", "https://")) or not urlsplit(value).hostname):
            raise ValueError("must start with http:// or https:// and name a host")
        return value.rstrip("/") if value else None

    @field_validator("web_listen", "health_listen", "worker_listen")
    @classmethod
    def _listen(cls, value: str) -> str:
        _host, colon, port = value.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            raise ValueError("must be host:port, such as 0.0.0.0:8080")
        return value

    @field_validator("web_token")
    @classmethod
    def _loopback_alone(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value is not None and not _is_loopback(info.data.get("web_listen", "")):
            raise ValueError("is for a FLEETAGENT_WEB_LISTEN on loopback alone, such as 127.0.0.1:8080")
        return value

    @property
    def lease(self) -> timedelta:
        """The lease's length."""
        return timedelta(seconds=self.lease_seconds)


def read_settings() -> Settings:
    """The environment's settings; `CannotStart` names the variable that is wrong."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = "FLEETAGENT_" + ".".join(map(str, first["loc"])).upper()
        if first["type"] == "missing":
            raise CannotStart(f"{name} is not set") from None
        raise CannotStart(f"{name} is wrong: {first['msg'].removeprefix('Value error, ')}") from None


def host_and_port(listen: str) -> tuple[str, int]:
    """`host:port` in its parts; IPv6 hosts stand in brackets."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def _is_loopback(listen: str) -> bool:
    host = host_and_port(listen)[0] if ":" in listen else ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may lead anywhere
