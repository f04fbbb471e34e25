"""`fleetagent` as a process of its own, for what happens before it serves and when it ends."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

ENDS_WITHIN_S = 60.0


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    stderr: str

    @property
    def line(self) -> str:
        """The one line that it said; an assertion fails where it said more, or ended well."""
        assert self.code == 1, f"exit code {self.code}:\n{self.stderr}"
        assert self.stderr.endswith("\n")
        assert self.stderr.count("\n") == 1, f"more than a line:\n{self.stderr}"
        assert self.stderr.startswith("fleetagent: ")
        return self.stderr


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without what would reach a cluster or set an operator up, plus the settings."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("FLEETAGENT_", "KUBE"))}
    return {**ours, "HOME": "/nonexistent", **settings}


def run(command: str, **settings: str) -> Ended:
    """Run `fleetagent <command>` to its end."""
    with started(command, **settings) as process:
        _, stderr = process.communicate(timeout=ENDS_WITHIN_S)
    return Ended(process.returncode, stderr)


@contextmanager
def started(command: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed at the block's end if it has not ended by then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fleetagent", command],
        env=environment(settings),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
