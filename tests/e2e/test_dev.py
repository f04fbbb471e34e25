"""`fleetagent dev`, started as a person does: what it promises, what it does not call well, what it leaves behind."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from fleetagent.dev.binaries import find_binaries
from support.cluster import eventually

SOURCE_ROOT = Path(__file__).parents[2] / "operator"
UP_WITHIN_S = 120.0
ENDS_WITHIN_S = 120.0
PROC = Path("/proc")

pytestmark = pytest.mark.skipif(not PROC.is_dir(), reason="looks into /proc for what was left behind")


@dataclass
class Demo:
    """One run of the command, in a directory of its own. All that it starts carries the mark."""

    directory: Path
    mark: str = field(default_factory=lambda: f"DEMO_TEST_MARK={secrets.token_hex(8)}")
    process: subprocess.Popen[bytes] | None = None
    folders: set[Path] = field(default_factory=set)

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
        """Begin; do not wait."""
        name, _, value = self.mark.partition("=")
        with (self.directory / "out").open("wb") as out, (self.directory / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fleetagent", "dev", *arguments],
                cwd=self.directory,
                env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT), name: value, **environ},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return self.process

    @property
    def file(self) -> Path:
        return self.directory / ".fleetagent" / "dev.json"

    def addresses(self) -> dict[str, str]:
        """What dev.json says, once it is there."""
        self.wait_for(self.file.exists, "dev.json is there")
        self.folders |= self.keepers()
        found: dict[str, str] = json.loads(self.file.read_text())
        return found

    def kubectl(self, addresses: dict[str, str], *arguments: str) -> str:
        """With the kubeconfig that it offers."""
        command = [str(find_binaries().kubectl), f"--kubeconfig={addresses['kubeconfig']}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def said(self, name: str = "out") -> str:
        return (self.directory / name).read_text()

    def wait_for(self, true: Callable[[], bool], what: str) -> None:
        """Wait for a state, as long as it runs."""

        def there() -> bool:
            ended = self.process is not None and self.process.poll() is not None
            if ended and not true():
                pytest.fail(f"it ended before: {what}\n{self.said()}{self.said('err')}")
            return true()

        eventually(there, what, within_s=UP_WITHIN_S)

    def ends(self) -> int:
        """Its exit code."""
        assert self.process is not None
        return self.process.wait(ENDS_WITHIN_S)

    def processes(self) -> dict[int, list[str]]:
        """All that carry the mark: process id to command line."""
        found = {}
        for path in PROC.glob("[0-9]*"):
            try:
                if self.mark.encode() in (path / "environ").read_bytes():
                    found[int(path.name)] = (path / "cmdline").read_bytes().decode().split("\0")
            except OSError:  # it has just ended, or is not ours to read
                continue
        return {pid: argv for pid, argv in found.items() if argv != [""]}

    def keepers(self) -> set[Path]:
        """The folders of its servers, as the processes that keep them were told."""
        told = [argv for argv in self.processes().values() if any(part.endswith("keeper.py") for part in argv)]
        return {Path(argv[[part.endswith("keeper.py") for part in argv].index(True) + 1]) for argv in told}

    def leaves_nothing(self) -> None:
        eventually(lambda: not self.processes(), "all that it started has ended")
        eventually(lambda: not any(map(Path.exists, self.folders)), "its folders are gone")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """Ends with the test, whatever happens."""
    made = Demo(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.terminate()
        made.process.wait(ENDS_WITHIN_S)


def listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        httpx.get(f"http://{parts.hostname}:{parts.port}/", trust_env=False, timeout=2)
    except httpx.ConnectError:
        return False
    except httpx.HTTPError:
        return True
    return True


def test_it_reaches_its_target_although_the_operator_is_killed_and_leaves_nothing(demo: Demo) -> None:
    demo.start("--for", "60s")
    addresses = demo.addresses()
    assert demo.file.stat().st_mode & 0o777 == 0o600
    assert len(demo.folders) == 3
    urls = [addresses[name] for name in ("marketURL", "modelURL", "workerURL", "webURL", "databaseURL")]
    assert all(map(listens, urls))
    assert "porep" in demo.kubectl(addresses, "get", "fa", "-o", "name")
    page = httpx.get(f"{addresses['webURL']}/agents/default/porep", headers={"accept": "text/html"}, trust_env=False)
    assert "porep" in page.raise_for_status().text  # no login on this machine
    assert "/do/request" in page.text

    os.kill(int(addresses["pid"]), signal.SIGKILL)
    demo.wait_for(lambda: demo.addresses()["pid"] != addresses["pid"], "the operator was started again")

    assert demo.ends() == 0, demo.said()
    assert "was ended by signal 9" in demo.said()
    assert "ok: the target was reached within tolerance, ledger and market agree" in demo.said()
    assert not demo.file.parent.exists()
    # The other ports are anybody's when their servers have gone, which the next line shows.
    assert not any(listens(addresses[name]) for name in ("workerURL", "webURL", "databaseURL"))
    demo.leaves_nothing()


def test_a_target_that_is_missed_and_a_machine_that_nobody_knows_of_are_told(demo: Demo) -> None:
    demo.start("--for", "25s")
    addresses = demo.addresses()

    demo.kubectl(addresses, "patch", "fa", "porep", "--type=merge", "-p", '{"spec":{"target":{"proofsPerHour":9999}}}')
    lost = {"label": "fa/000000000000/lost"}
    httpx.post(f"{addresses['marketURL']}/_sim/machines", json=lost, trust_env=False).raise_for_status()

    assert demo.ends() == 1
    assert "  - the target was not reached: OnTarget is False (BelowTarget)" in demo.said()
    assert "(fa/000000000000/lost) lives on the market and is not in the ledger" in demo.said()
    demo.leaves_nothing()


def test_a_database_that_dies_is_told(demo: Demo) -> None:
    demo.start("--for", "20s")
    with psycopg.connect(demo.addresses()["databaseURL"], autocommit=True) as connection:
        (postmaster,) = connection.execute("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)").fetchall()[0]

    os.kill(int(postmaster), signal.SIGKILL)

    assert demo.ends() == 1
    assert "  - the database cannot be read: " in demo.said()
    demo.leaves_nothing()


def test_a_signal_while_it_starts_ends_what_was_started(demo: Demo) -> None:
    process = demo.start()
    demo.wait_for(lambda: "Kubernetes API" in demo.said(), "the API server is up")
    demo.folders = demo.keepers()

    process.send_signal(signal.SIGINT)

    assert demo.ends() == 0
    assert demo.folders
    assert not demo.file.parent.exists()
    demo.leaves_nothing()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_ends_everything(demo: Demo, number: signal.Signals) -> None:
    process = demo.start()
    addresses = demo.addresses()

    process.send_signal(number)

    assert demo.ends() == (0 if number is signal.SIGTERM else -number)
    demo.leaves_nothing()
    eventually(lambda: not listens(addresses["databaseURL"]), "Postgres has ended")


def test_what_keeps_it_from_starting_is_one_line(demo: Demo) -> None:
    demo.start("--for", "10s", KUBEBUILDER_ASSETS="/nowhere")

    assert demo.ends() == 1
    assert demo.said("err") == "fleetagent: KUBEBUILDER_ASSETS is /nowhere, which is no folder\n"
    assert not demo.file.parent.exists()
