"""End servers together with their owner, however it ends.

`servers.py` runs this file as a script, with the standard library alone, in a session of its own: Ctrl-C in a terminal
reaches the owner only, which then closes the pipe. A pipe that closes, or an owner that is no more (kill -9), ends the
servers and removes their folder. Should the keeper itself be killed, Linux ends its servers, and the next start removes
the folder: the lock that the keeper inherited is free again.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

OWNER_CHECK_S = 0.5
GRACE_S = 10.0
PR_SET_PDEATHSIG = 1


def _end_with_parent(death_signal: int, parent: int) -> Callable[[], None]:
    """What a server does between fork and exec; only Linux can promise it."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def promise() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, death_signal)
        if os.getppid() != parent:  # it died before the promise was made
            os._exit(1)

    return promise


class Keeper:
    """The servers of one owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers: dict[str, tuple[subprocess.Popen[bytes], int]] = {}

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order; the answer has `error` when it could not be done."""
        name = order["name"]
        match order["do"]:
            case "start":
                return self.start(name, order)
            case "poll":
                return {"exit_code": self.servers[name][0].poll()}
            case "stop":
                return {"exit_code": self.stop(name)}
            case other:
                return {"error": f"no such order: {other}"}

    def start(self, name: str, order: dict[str, Any]) -> dict[str, Any]:
        """Start a server with an empty log; its input is empty too."""
        user: list[int] | None = order["user"]
        identity: dict[str, Any] = {"user": user[0], "group": user[1], "extra_groups": []} if user else {}
        try:
            with Path(order["log"]).open("wb") as log:
                server = subprocess.Popen(
                    order["argv"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    env=order["env"],
                    process_group=0,
                    preexec_fn=_end_with_parent(order["end_signal"], os.getpid()),  # noqa: PLW1509 - one thread only
                    **identity,
                )
        except OSError as error:
            return {"error": str(error)}
        self.servers[name] = (server, order["end_signal"])
        return {"pid": server.pid}

    def stop(self, name: str) -> int:
        """End a server and wait for it; what ignores its signal is killed."""
        server, end_signal = self.servers.pop(name)
        if server.poll() is None:
            server.send_signal(end_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return server.wait(GRACE_S)
            server.kill()
        return server.wait()

    def stop_all(self) -> None:
        """Last started, first ended; then the folder goes."""
        for name in reversed(list(self.servers)):
            self.stop(name)
        shutil.rmtree(self.folder, ignore_errors=True)  # the next start looks for what is left


def orders(owner: int) -> Iterator[dict[str, Any]]:
    """Each order, until the owner closes the pipe or is no more."""
    unread = b""
    # A process that the owner forked may hold the pipe open after its death: so look at the owner as well.
    while os.getppid() == owner:
        ready, _, _ = select.select([0], [], [], OWNER_CHECK_S)
        if not ready:
            continue
        received = os.read(0, 65536)
        if not received:
            return
        *lines, unread = (unread + received).split(b"\n")
        yield from map(json.loads, lines)


def main() -> None:
    """Obey until the end: `keeper.py FOLDER OWNER_PID`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    keeper = Keeper(Path(sys.argv[1]))
    try:
        for order in orders(int(sys.argv[2])):
            answer = json.dumps(keeper.obey(order)).encode() + b"\n"
            with contextlib.suppress(BrokenPipeError):  # the owner has just died: the next look ends us
                os.write(1, answer)
    finally:
        keeper.stop_all()


if __name__ == "__main__":
    main()
