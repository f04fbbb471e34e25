"""Where machines are rented, which ones, and what runs on them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import ConfigDict, Field, WithJsonSchema

from fleetagent.domain.resource.values import (
    ENV_NAME_PATTERN,
    HAS_HOST,
    LINE_PATTERN,
    NO_CREDENTIALS,
    NO_QUERY,
    NOT_ZERO,
    TEXT_PATTERN,
    Cuda,
    CudaVersion,
    Duration,
    EnvName,
    HttpURL,
    Number,
    SecretKeyRef,
    SecretRef,
    Usd,
    lasting,
)
from fleetagent.domain.resource.wire import Wire, rules

_SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}
_ENV_SCHEMA = {
    "type": "object",
    "maxProperties": 64,
    "additionalProperties": {"type": "string", "maxLength": 256, "pattern": TEXT_PATTERN},
    **rules(
        (
            f"self.all(name, name.size() <= 256 && name.matches('{ENV_NAME_PATTERN}'))",
            "must have names of letters, digits and _ that begin with no digit and have at most 256 characters",
        ),
        ("!('MIN_RATE' in self)", "must not set MIN_RATE: the operator sets it; use minProofsPerHour"),
    ),
}


class OfferFilter(Wire):
    """Which offers are acceptable. An empty or absent list does not filter."""

    gpu_names: tuple[Annotated[str, Field(min_length=1, max_length=64, pattern=LINE_PATTERN)], ...] = Field(
        (), max_length=64, json_schema_extra=_SET
    )
    """GPU names as the market spells them, with spaces, such as RTX 5090. Absent: any."""

    min_gpu_ram_gb: int = Field(16, ge=0, le=10_000)
    """Memory of each GPU, in GB."""

    min_cpu_ram_gb: int = Field(240, ge=0, le=100_000)
    """The machine's memory that is ours, in GB."""

    min_cpu_cores: int = Field(25, ge=0, le=10_000)
    """The machine's CPU cores that are ours."""

    min_disk_gb: int = Field(250, ge=0, le=1_000_000)
    """Free disk, in GB."""

    min_download_mbps: int = Field(100, ge=0, le=1_000_000)
    """Download rate, in megabits per second."""

    min_cuda_version: Cuda = Field(CudaVersion(13, 0))
    """Newest CUDA version that the machine's driver supports, at least. A string, such as "13.0"."""

    min_reliability: Annotated[Number, Field(json_schema_extra={"minimum": 0, "maximum": 1})] = Decimal("0.97")
    """The market's reliability score of the host, from 0 to 1."""

    max_usd_per_hour: Usd | None = Field(None, json_schema_extra=rules(NOT_ZERO))
    """Most that one machine may cost, in USD per hour, storage included. Absent: the budget alone decides."""

    verified: bool = True
    """Accept only hosts that the market has verified."""

    countries: tuple[Annotated[str, Field(max_length=2, pattern=r"^[A-Z]{2}$")], ...] = Field(
        (), max_length=250, json_schema_extra=_SET
    )
    """Two-letter country codes to accept, such as DE. Absent: any."""

    exclude_machines: tuple[Annotated[int, Field(ge=0, le=9_007_199_254_740_991)], ...] = Field(
        (), max_length=1000, json_schema_extra=_SET
    )
    """Machine ids of the market that are never rented."""


class InstanceTemplate(Wire):
    """What is started on a rented machine."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.workerURLEnv != 'MIN_RATE'",
                "workerURLEnv must not be MIN_RATE: that variable holds the minimum rate; choose another name",
            ),
            (
                "!has(self.env) || !(self.workerURLEnv in self.env)",
                "env must not set the variable that workerURLEnv names: the operator sets it; remove it from env",
            ),
        )
    )

    image: str = Field(min_length=1, max_length=1024, pattern=r"^[^\s]+$")
    """Container image of the worker. It must speak the worker protocol."""

    disk_gb: int = Field(250, ge=8, le=100_000)
    """Disk to rent, in GB. It is billed, and cannot be changed later."""

    env: Annotated[Mapping[str, str], WithJsonSchema(_ENV_SCHEMA)] = Field(default={})
    """Environment variables of the container, names and values of at most 256 characters."""

    env_from_secret_ref: SecretRef | None = None
    """Secret whose keys become environment variables too. They are visible to the machine's host."""

    onstart: str = Field("", max_length=4096, pattern=TEXT_PATTERN)
    """Shell commands to run when the container starts."""

    worker_url_env: EnvName = Field("FLEETAGENT_URL")
    """Name of the environment variable that receives the worker's own callback URL."""

    min_proofs_per_hour: Annotated[Number, Field(json_schema_extra={"minimum": 0, "maximum": 1_000_000})] = Decimal(0)
    """Benchmark below which a machine fails at once, in proofs per hour. 0: from its price and budget.usdPerProof."""


class VastFleet(Wire):
    """Machines rented at vast.ai."""

    base_url: HttpURL = Field(
        "https://console.vast.ai", alias="baseURL", json_schema_extra=rules(HAS_HOST, NO_CREDENTIALS, NO_QUERY)
    )
    """Base URL of the market's API, without a path to its version."""

    api_key_secret_ref: SecretKeyRef
    """Secret key that holds the market's API key."""

    offers: OfferFilter = OfferFilter()
    """Which offers are acceptable."""

    instance: InstanceTemplate
    """What is started on a rented machine."""


class PhaseTimeouts(Wire):
    """How long a machine may stay in a phase; after that it is destroyed and its host remembered."""

    loading: Duration = lasting("15m", least="1s", most="24h")
    """From the launch to the worker's first call."""

    registered: Duration = lasting("90m", least="1s", most="24h")
    """From the worker's first call to the start of its benchmark: fetching parameters."""

    benchmarking: Duration = lasting("45m", least="1s", most="24h")
    """From the start of the benchmark to its result."""


class FleetSpec(Wire):
    """Where machines are rented, and how long each phase of their start may take."""

    vast: VastFleet
    """Machines rented at vast.ai."""

    timeouts: PhaseTimeouts = PhaseTimeouts()
    """How long a machine may stay in a phase; after that it is destroyed and its host remembered."""
