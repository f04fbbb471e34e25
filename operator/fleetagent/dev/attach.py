"""`.fleetagent/dev.json`: how other tools find what `fleetagent dev` has started."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from fleetagent.errors import CannotStart

FOLDER = ".fleetagent"
NAME = "dev.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where everything is; `pid` is the operator's and changes when it is started again.

    `webURL` is the page, without login; /metrics and /api/v1 stand there too.
    """

    kubeconfig: str
    databaseURL: str  # noqa: N815  # the file's own spelling, here and below
    marketURL: str  # noqa: N815
    modelURL: str  # noqa: N815
    workerURL: str  # noqa: N815
    webURL: str  # noqa: N815
    pid: int


class DevFile:
    """The file is there while there is something to attach to, and readable by us alone: it holds a password."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    @contextlib.contextmanager
    def claimed(cls, directory: Path) -> Iterator["DevFile"]:
        """Have this directory's file to oneself; at the end it is gone. `CannotStart` while another process has it."""
        folder = directory / FOLDER
        try:
            folder.mkdir(exist_ok=True)
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise CannotStart(f"{folder} cannot be made: {error.strerror}; start in a folder of yours") from error
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file = cls(folder / NAME)
            file._remove()  # what a killed process left would lead nowhere
            try:
                yield file
            finally:
                file._remove()
                with contextlib.suppress(OSError):  # it holds other things
                    folder.rmdir()
        except BlockingIOError as error:
            raise CannotStart(f"`fleetagent dev` runs in {directory} already; {folder / NAME} says where") from error
        finally:
            os.close(held)

    def write(self, addresses: Addresses) -> None:
        """Replace the content in one step, so that nobody reads half of it."""
        self._path.parent.mkdir(exist_ok=True)
        unfinished = self._path.with_suffix(".new")
        unfinished.touch(mode=0o600)
        unfinished.write_text(json.dumps(asdict(addresses), indent=2) + "\n", encoding="utf-8")
        unfinished.replace(self._path)

    def _remove(self) -> None:
        for path in (self._path, self._path.with_suffix(".new")):
            path.unlink(missing_ok=True)
