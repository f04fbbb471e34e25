"""Where the agent learns whether proofs are wanted: exactly one source."""

from pydantic import ConfigDict, Field

from fleetagent.domain.resource.values import HAS_HOST, NO_CREDENTIALS, NO_QUERY, TEXT_PATTERN, HttpURL, SecretKeyRef
from fleetagent.domain.resource.wire import Wire, rules


class CurioDemand(Wire):
    """Demand from Curio's own tables, which are only read."""

    dsn_secret_ref: SecretKeyRef
    """Secret key that holds the connection string of Curio's database: postgresql://user:password@host:5433/yugabyte."""


class PrometheusDemand(Wire):
    """Demand from a Prometheus query."""

    url: HttpURL = Field(json_schema_extra=rules(HAS_HOST, NO_CREDENTIALS, NO_QUERY))
    """Base URL of Prometheus, such as http://prometheus.monitoring.svc:9090."""

    query: str = Field(min_length=1, max_length=4096, pattern=TEXT_PATTERN)
    """PromQL that gives one number, a scalar or one series: the proofs that wait. Above 0, demand is active."""


class HttpDemand(Wire):
    """Demand from any HTTP endpoint."""

    url: HttpURL = Field(json_schema_extra=rules(HAS_HOST, NO_CREDENTIALS))
    """URL that answers GET with the JSON {"active": bool, "queued": int, "arrivalPerHour": float}.

    Only active must be there; "observedAt", a moment, may be too: what is older than 5 minutes counts as unknown.
    """


class StaticDemand(Wire):
    """Demand that somebody sets by hand."""

    active: bool = True
    """Whether proofs are wanted."""


DemandSource = CurioDemand | PrometheusDemand | HttpDemand | StaticDemand


class DemandSpec(Wire):
    """Exactly one of curio, prometheus, http and static."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    curio: CurioDemand | None = None
    """Demand from Curio's own tables, which are only read."""

    prometheus: PrometheusDemand | None = None
    """Demand from a Prometheus query."""

    http: HttpDemand | None = None
    """Demand from any HTTP endpoint that answers with our JSON."""

    static: StaticDemand | None = None
    """Demand that is set by hand."""

    @property
    def source(self) -> DemandSource:
        """The one source that is set; ValueError if the API server let none or several through."""
        sources = [s for s in (self.curio, self.prometheus, self.http, self.static) if s is not None]
        if len(sources) != 1:
            raise ValueError(f"spec.demand must name exactly one source, not {len(sources)}")
        return sources[0]
