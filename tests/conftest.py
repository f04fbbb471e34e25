"""What holds for every test."""

import os

import pytest

# Here and not in integration/, so that integration and end-to-end tests share one control plane and one Postgres.
from support.cluster import (
    binaries_with_progress,
    control_plane,
    database_url,
    migrated_template,
    namespace,
    postgres_server,
)

__all__ = ["control_plane", "database_url", "migrated_template", "namespace", "postgres_server"]


def pytest_configure() -> None:
    """Keep the settings of a developer's shell out of the tests."""
    for name in [name for name in os.environ if name.startswith("FLEETAGENT_")]:
        del os.environ[name]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane before the first test, whose time limit would not suffice for it."""
    needed = any("control_plane" in getattr(item, "fixturenames", ()) for item in session.items)
    if needed and not session.config.option.collectonly:
        binaries_with_progress(session.config)
