"""A stage for each story."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from support.browser import PICTURES, a_chromium
from support.inhabited import Inhabited, an_inhabited_stage
from support.stage import Stage, a_stage
from support.strangers import FRIENDLY, Strangers


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """The whole product, without an operator yet: `stage.start_operator()`."""
    with a_stage(control_plane, namespace, database_url, tmp_path) as ready:
        yield ready


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser process for a file of tests; each test looks through a window of its own."""
    with a_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def inhabited(
    control_plane: ControlPlane,
    postgres_server: EmbeddedPostgres,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Inhabited]:
    """A stage on which agents have lived for a while, for a file of tests that only look."""
    folder, strangers = tmp_path_factory.mktemp("page"), FRIENDLY if PICTURES else Strangers()
    with an_inhabited_stage(control_plane, postgres_server, migrated_template, folder, strangers) as world:
        yield world
