"""Our own commands as servers: started as a user would start them, and gone when we are."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from fleetagent.dev.servers import Servers

SOURCE_ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN_S = 60.0
PREFIX = "FLEETAGENT_"


def command(*arguments: str) -> list[str]:
    """`fleetagent ARGUMENTS…` by the Python that runs now."""
    return [sys.executable, "-m", "fleetagent", *arguments]


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The caller's environment without our own settings; our modules are found from any folder."""
    kept = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
    paths = [str(SOURCE_ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


class Commands(Servers):
    """Servers that are commands of ours, and may be asked whether they are still there."""

    def exit_code(self, name: str) -> int | None:
        """None while it runs; minus the signal's number when a signal has ended it."""
        found: int | None = self._order("poll", name)["exit_code"]
        return found

    def announced_url(self, name: str) -> str:
        """The address that a simulator prints once it is ready; waits for it."""
        self.wait_for(name, lambda: self._url_in_log(name) is not None, within_s=READY_WITHIN_S)
        return self._url_in_log(name) or ""

    def last_lines(self, name: str, count: int) -> list[str]:
        """The end of its log."""
        return self.log(name).read_text(errors="replace").splitlines()[-count:] if self.log(name).exists() else []

    def _url_in_log(self, name: str) -> str | None:
        found = re.search(r"^\S+ on (https?://\S+)", self.log(name).read_text(errors="replace"), re.MULTILINE)
        return found[1] if found else None
