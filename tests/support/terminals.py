"""Somebody at a terminal with a kubeconfig of their own, who types `kubectl fleetagent …`."""

import contextlib
import io
import json
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleetagent.dev.apiserver import write_kubeconfig
from fleetagent.dev.controlplane import ControlPlane
from fleetagent.plugin.__main__ import main

EXECUTABLE = Path(sys.executable).parent / "kubectl-fleetagent"


@dataclass(frozen=True)
class Typed:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """With -o json."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """What went wrong: one line on standard error, exit code 1, and nothing else."""
        assert self.code == 1, self
        assert self.out == ""
        last = self.err.splitlines()[-1]
        assert last.startswith("error: "), self.err
        return last.removeprefix("error: ")


@dataclass(frozen=True)
class Person:
    """Their kubeconfig, and the namespace of its context."""

    kubeconfig: Path

    def types(self, *words: str) -> Typed:
        """In this process: the same as the executable does, without the time that a start takes."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*words, "--kubeconfig", str(self.kubeconfig)])
        return Typed(code, out.getvalue(), err.getvalue())

    def command(self, *words: str) -> list[str]:
        """For a process of its own."""
        return [str(EXECUTABLE), *words, "--kubeconfig", str(self.kubeconfig)]


@contextmanager
def opened(person: Person, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """`kubectl fleetagent open …` with no browser of its own, until the block ends."""
    command = person.command("open", *words, "--no-browser")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def door_of(process: "subprocess.Popen[str]") -> str:
    """The address that it says a browser should open."""
    assert process.stderr is not None
    said = []
    for each in process.stderr:
        said.append(each)
        if found := re.search(r"open this .*(http://127\.0\.0\.1:\d+/\S+)", each):
            return found[1]
    pytest.fail("".join(said))


def with_token(cluster: ControlPlane, token: str, namespace: str, folder: Path, server: str | None = None) -> Person:
    """Somebody with this token; `server` if it is another one than the cluster's."""
    path = folder / f"{secrets.token_hex(4)}.kubeconfig"
    address = {"server_url": server or cluster.server_url, "ca": cluster.ca_path}
    write_kubeconfig(path, **address, user="somebody", token=token, namespace=namespace)  # type: ignore[arg-type]  # by name
    return Person(path)
