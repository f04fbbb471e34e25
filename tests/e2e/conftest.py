"""A stage for each story."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetagent.dev.controlplane import ControlPlane
from support.stage import Stage, a_stage


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str, database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """The whole product, without an operator yet: `stage.start_operator()`."""
    with a_stage(control_plane, namespace, database_url, tmp_path) as ready:
        yield ready


@pytest.fixture
def calm(control_plane: ControlPlane, namespace: str, database_url: str, tmp_path: Path) -> Iterator[Stage]:
    """As `stage`, on a market whose offers and prices stay as they are: what a test was shown is still true later."""
    with a_stage(control_plane, namespace, database_url, tmp_path, moving=False) as ready:
        yield ready
