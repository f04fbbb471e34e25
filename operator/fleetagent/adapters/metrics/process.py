"""What is measured of the process as a whole: once for all agents, so that histograms stay affordable."""

import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from fleetagent.domain.retention import TableSize

MODEL_SECONDS: Final = (0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
RUN_SECONDS: Final = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
DELAY_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class ProcessSeries:
    """Kept by prometheus-client: there are few, whatever the number of agents."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.active = Gauge(
            "fleetagent_active",
            "1 while this process works, 0 while it stands by for another replica",
            registry=registry,
        )
        self.active.set(1)
        build = Gauge(
            "fleetagent_build_info", "1; which version this process is", ("version", "python"), registry=registry
        )
        build.labels(version("fleetagent"), platform.python_version()).set(1)
        self.agents = Gauge("fleetagent_agents", "Agents that this process has series of", registry=registry)
        self.dropped = Gauge(
            "fleetagent_status_fields_dropped",
            "Fields of the last status that the API server did not keep: above 0 where the cluster's CRD is outdated",
            registry=registry,
        )
        self.leases = Counter(
            "fleetagent_lease_changes",
            "Agents that this process has taken, lost to another one, or handed over",
            ("change",),
            registry=registry,
        )
        for change in ("Taken", "Lost", "HandedOver"):
            self.leases.labels(change)
        self.run_seconds = Histogram(
            "fleetagent_run_duration_seconds",
            "How long runs of all agents took, waiting for the model included",
            buckets=RUN_SECONDS,
            registry=registry,
        )
        self.delay_seconds = Histogram(
            "fleetagent_run_start_delay_seconds",
            "From the moment at which a run was due to its beginning",
            buckets=DELAY_SECONDS,
            registry=registry,
        )
        self.model_seconds = Histogram(
            "fleetagent_model_request_seconds",
            "How long one request to a model took, its repetitions and waits included",
            buckets=MODEL_SECONDS,
            registry=registry,
        )
        self.market = Counter(
            "fleetagent_market_requests",
            "Calls of the market, each repetition by itself, by what they came to",
            ("call", "outcome"),
            registry=registry,
        )
        self.rows = Gauge(
            "fleetagent_database_rows", "Rows of a table, as the database estimates them", ("table",), registry=registry
        )
        self.bytes = Gauge(
            "fleetagent_database_bytes", "Size of a table with its indexes", ("table",), registry=registry
        )

    def watch_turns(self, active: Callable[[], bool]) -> None:
        """Of several replicas: ask this, at each scrape, whether it is our turn."""
        self.active.set_function(active)

    def tables(self, sizes: Mapping[str, TableSize]) -> None:
        """What the tables hold."""
        for table, size in sizes.items():
            self.rows.labels(table).set(size.rows)
            self.bytes.labels(table).set(size.bytes)

    def rest(self) -> None:
        """What is true of all agents is for the replica to tell that keeps them."""
        self.rows.clear()
        self.bytes.clear()
        self.dropped.set(0)

    def text(self) -> bytes:
        """All of it, in the text format that Prometheus scrapes."""
        return generate_latest(self.registry)
