"""`kubectl-fleetagent`, which kubectl finds on the PATH and runs as `kubectl fleetagent`."""

import io
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from fleetagent.errors import FleetAgentError
from fleetagent.plugin.parser import Command, command_line
from fleetagent.plugin.person import Person
from fleetagent.plugin.terminal import line


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Whatever goes wrong is one sentence on standard error, and exit code 1."""
    args = command_line().parse_args(argv)
    for out in (sys.stdout, sys.stderr):
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="replace")  # whatever the terminal's encoding lacks
    before = signal.signal(signal.SIGTERM, _end)
    try:
        return _run(args.command, Person(args))
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(command: Command, person: Person) -> int:
    try:
        code = command(person)
        sys.stdout.flush()
    except FleetAgentError as error:
        sys.stderr.write(f"error: {line(error)}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read it, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _end(_number: int, _frame: FrameType | None) -> None:
    """Close what is open, such as a port-forward."""
    raise SystemExit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
