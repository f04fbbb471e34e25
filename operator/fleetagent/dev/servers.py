"""Servers that end when their owner ends, and the folder that goes with them."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from fleetagent.dev import keeper
from fleetagent.dev.closing import Closing
from fleetagent.errors import CannotStart

POLL_S = 0.02
LAST_LINES = 15
FOLDER_PREFIX = "fleetagent-"
LOCK = "keeper.lock"
FRESH_S = 600.0  # a folder without a lock may just be about to get one


class PortTaken(CannotStart):
    """Somebody else was faster: try the next port."""


class Servers(Closing):
    """A folder and the servers that live in it; `close`, or the death of this process, ends both."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self._process = process
        self._one_order_at_a_time = threading.Lock()

    @classmethod
    def open(cls, kind: str, *, folder: Path | None = None) -> Self:
        """Take a new temporary folder, or `folder`, which must be new, empty or left by a dead owner."""
        remove_abandoned(Path(tempfile.gettempdir()))
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{kind}-"))
        else:
            folder = _take_over(folder.absolute())
        lock = _locked(folder)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, str(folder), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(lock,),
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            os.close(lock)
        return cls(folder, process)

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        user: tuple[int, int] | None = None,
        end_signal: signal.Signals = signal.SIGKILL,
    ) -> int:
        """Start a server in the folder, as `user` (uid, gid) if given; its process id. All it holds is thrown away."""
        log, arguments = str(self.log(name)), [str(part) for part in argv]
        variables = dict(os.environ if env is None else env)
        order = {"argv": arguments, "log": log, "env": variables, "user": user, "end_signal": int(end_signal)}
        return int(self._order("start", name, **order)["pid"])

    def run(self, name: str, argv: Sequence[str | Path], *, within_s: float, **how: Any) -> None:
        """Start a program as `start` does, and return once it has ended well."""
        self.start(name, argv, **how)
        deadline = time.monotonic() + within_s
        while (exit_code := self._order("poll", name)["exit_code"]) is None:
            if time.monotonic() > deadline:
                self.stop(name)
                raise CannotStart(f"{name} did not end within {within_s:g} s:\n{_last_lines(self.log(name))}")
            time.sleep(POLL_S)
        if exit_code:
            raise CannotStart(f"{name} ended with code {exit_code}:\n{_last_lines(self.log(name))}")

    def stop(self, name: str) -> int:
        """End one server now; its exit code."""
        return int(self._order("stop", name)["exit_code"])

    def log(self, name: str) -> Path:
        """Where the server's output goes."""
        return self.folder / f"{name}.log"

    def wait_for(self, name: str, ready: Callable[[], bool], *, within_s: float) -> None:
        """Return once `ready` says so, or say how the server ended, in its own last words."""
        deadline = time.monotonic() + within_s
        while not ready():
            exit_code = self._order("poll", name)["exit_code"]
            last_words = _last_lines(self.log(name))
            if exit_code is not None and _names_a_taken_port(last_words):
                raise PortTaken(f"{name} found its port taken:\n{last_words}")
            if exit_code is not None:
                raise CannotStart(f"{name} ended with code {exit_code}:\n{last_words}")
            if time.monotonic() > deadline:
                raise CannotStart(f"{name} was not ready within {within_s:g} s:\n{last_words}")
            time.sleep(POLL_S)

    def close(self) -> None:
        """End all servers and remove the folder; harmless when done twice."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # in case the keeper was killed

    def _order(self, do: str, name: str, **details: Any) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None or stdin.closed:
            raise CannotStart(f"{do} {name}: its servers were closed")
        with self._one_order_at_a_time:
            try:
                stdin.write(json.dumps({"do": do, "name": name, **details}).encode() + b"\n")
                stdin.flush()
            except BrokenPipeError as error:
                raise CannotStart(f"{do} {name}: the process that keeps it is gone") from error
            line = stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the process that keeps it is gone"}
        if "error" in answer:
            raise CannotStart(f"{do} {name}: {answer['error']}")
        return answer


def remove_abandoned(parent: Path) -> None:
    """Remove the folders below `parent` whose owner and keeper were both killed."""
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError):  # another process may be removing it as well
            if folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> bool:
    """Whether it is gone now."""
    lock = folder / LOCK
    if not lock.exists():
        ours_to_remove = time.time() - folder.stat().st_mtime > FRESH_S
    else:
        with lock.open("rb") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            ours_to_remove = True
    if ours_to_remove:
        shutil.rmtree(folder)
    return ours_to_remove


def _take_over(folder: Path) -> Path:
    """Make sure that removing the folder later removes nobody else's files."""
    if (folder / LOCK).exists() and not _remove_if_abandoned(folder):
        raise CannotStart(f"{folder} is in use by another process")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise CannotStart(f"{folder} is not empty, and it would be removed at the end: name another folder")
    return folder


def _locked(folder: Path) -> int:
    """A descriptor that holds the folder's lock; the lock appears under its name only once it is held."""
    unheld = folder / f"{LOCK}.new"
    descriptor = os.open(unheld, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unheld.rename(folder / LOCK)
    return descriptor


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-LAST_LINES:]) or "(it wrote nothing)"


def _names_a_taken_port(log: str) -> bool:
    return "address already in use" in log.lower()
