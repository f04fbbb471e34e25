"""vast.ai's own command line, pointed at a market of ours."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleetagent.dev.official_client import find_official_client
from fleetagent.errors import CannotStart

ENDS_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Said:
    """How one command ended."""

    exit_code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class OfficialClient:
    """Each call is a process of its own, as people and scripts call it."""

    packages: Path
    url: str
    key: str
    home: Path

    def run(self, *arguments: object) -> Said:
        """One command, as it is."""
        variables = {
            "PYTHONPATH": str(self.packages),
            "VAST_URL": self.url,
            "VAST_API_KEY": self.key,
            "VASTAI_NO_UPDATE_CHECK": "1",
            "HOME": str(self.home),  # it keeps a cache and a role there
            "PYTHONIOENCODING": "utf-8",
        }
        done = subprocess.run(
            # -S: its own packages alone, none of ours.
            [sys.executable, "-S", "-c", "from vastai.cli.main import main; main()", *map(str, arguments)],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ENDS_WITHIN_S,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: object) -> Any:
        """What it gives to scripts."""
        said = self.run(*arguments, "--raw")
        assert said.exit_code == 0, said
        return json.loads(said.out)

    def text(self, *arguments: object) -> str:
        """What it shows to people."""
        said = self.run(*arguments)
        assert said.exit_code == 0, said
        assert "Failed with error" not in said.err  # its exit code does not tell
        return said.out


def packages() -> Path:
    """Where the client is; a test that needs it fails with the reason where it can't be had."""
    try:
        return find_official_client()
    except CannotStart as reason:
        pytest.fail(str(reason), pytrace=False)
