"""What holds for every test."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Here and not in integration/, so that integration and end-to-end tests share one control plane and one Postgres.
from support.cluster import (
    binaries_with_progress,
    control_plane,
    database_url,
    migrated_template,
    namespace,
    postgres_server,
)
from support.ports import free_port

__all__ = ["control_plane", "database_url", "migrated_template", "namespace", "postgres_server"]


# The same examples each time, for as long as they take: whether a change may land must not depend on luck or on the
# machine. `make nightly` looks for new ones.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", unhurried, derandomize=True)
settings.register_profile("searching", unhurried, max_examples=2000, print_blob=True)
settings.load_profile("fixed")


@pytest.fixture
def unused_tcp_port() -> int:
    """Where nobody listens: in the place of pytest-asyncio's, whose port is anybody's by the time that it is used."""
    return free_port()


def pytest_configure() -> None:
    """Keep the settings of a developer's shell out of the tests, and its ways with signals."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, by all that is started
    for name in [name for name in os.environ if name.startswith("FLEETAGENT_")]:
        del os.environ[name]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane before the first test, whose time limit would not suffice for it."""
    needed = any("control_plane" in getattr(item, "fixturenames", ()) for item in session.items)
    if needed and not session.config.option.collectonly:
        binaries_with_progress(session.config)
