"""A pgbouncer in transaction mode in front of a Postgres, as many installations have it: for the tests."""

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from fleetagent.dev.binaries import to_stderr
from fleetagent.dev.cache import in_cache, this_system
from fleetagent.dev.closing import Closing
from fleetagent.dev.debs import unpacked, with_libraries
from fleetagent.dev.loopback import HOST, on_a_free_port
from fleetagent.dev.postgres import unprivileged_user
from fleetagent.dev.servers import Servers
from fleetagent.errors import CannotStart

PROGRAM = "usr/sbin/pgbouncer"
SYSTEM_PROGRAMS = "/usr/sbin"  # which not every user has on PATH
READY_WITHIN_S = 30.0
HOW_TO_GET_IT = "install pgbouncer, so that it is on PATH; on Debian and Ubuntu it is fetched when apt-get may do so"


def find_pgbouncer(environ: Mapping[str, str] = os.environ, *, progress: Callable[[str], None] = to_stderr) -> Path:
    """The one on $PATH, else one in our cache, which is filled first if need be."""
    everywhere = os.pathsep.join([environ.get("PATH", os.defpath), SYSTEM_PROGRAMS])
    if on_path := shutil.which("pgbouncer", path=everywhere):
        return Path(on_path)
    cached = cache_folder(environ)
    if not (cached / PROGRAM).exists():
        try:
            unpacked("pgbouncer", PROGRAM, cached, environ=environ, progress=progress)
        except CannotStart as error:
            raise CannotStart(f"there is no pgbouncer ({error}): {HOW_TO_GET_IT}") from error
    return cached / PROGRAM


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the pgbouncer that was fetched for this machine is kept, or will be."""
    return in_cache(environ, "pgbouncer", this_system())


class PgBouncer(Closing):
    """A running pgbouncer, for all databases of one server; a session of Postgres is lent for one transaction."""

    def __init__(self, servers: Servers, port: int, behind: Mapping[str, str]) -> None:
        self._servers = servers
        self._port = port
        self._behind = behind
        self._password = behind["password"]

    @classmethod
    def start(cls, postgres_url: str, *, pool_size: int) -> Self:
        """Return once it takes connections to the server of this URL, at most `pool_size` to each database."""
        behind = {name: str(value) for name, value in conninfo_to_dict(postgres_url).items()}
        servers = Servers.open("pgbouncer")
        try:
            user = unprivileged_user() if os.geteuid() == 0 else None  # it refuses to run as root
            if user:
                servers.folder.chmod(0o711)  # to be passed, not to be listed
            program, environ = _reachable(find_pgbouncer(), servers.folder, for_others=user is not None)

            def begin(port: int) -> int:
                ini = _written(servers.folder / "pgbouncer", behind, port, pool_size, user)
                servers.start("pgbouncer", [program, ini], env=environ, user=user)
                log = servers.log("pgbouncer")
                servers.wait_for("pgbouncer", lambda: "process up" in log.read_text(), within_s=READY_WITHIN_S)
                return port

            port = on_a_free_port(begin)
            server = cls(servers, port, behind)
            servers.wait_for("pgbouncer", server._answers, within_s=READY_WITHIN_S)
        except BaseException:
            servers.close()
            raise
        return server

    def url_of(self, database: str) -> str:
        """A database of that server, by way of the pool."""
        return f"postgresql://{quote(self._behind['user'])}:{quote(self._password)}@{HOST}:{self._port}/{database}"

    def close(self) -> None:
        """End it and remove its folder; harmless when done twice."""
        self._servers.close()

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url_of(self._behind["dbname"]), connect_timeout=2, prepare_threshold=None).close()
        except psycopg.OperationalError:
            return False
        return True


def _reachable(program: Path, folder: Path, *, for_others: bool) -> tuple[Path, dict[str, str]]:
    """The program and its environment; as a copy in `folder` if it is in a cache that another user can't enter."""
    tree = cache_folder()
    if program != tree / PROGRAM:
        return program, dict(os.environ)
    if for_others:
        tree = Path(shutil.copytree(tree, folder / "install", symlinks=True))
        for path in [tree, *tree.rglob("*")]:
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))
    return tree / PROGRAM, with_libraries(tree, os.environ)


def _written(home: Path, behind: Mapping[str, str], port: int, pool_size: int, user: tuple[int, int] | None) -> Path:
    """Its configuration, and who may connect."""
    home.mkdir(mode=0o700, exist_ok=True)
    users, ini = home / "users.txt", home / "pgbouncer.ini"
    users.touch(mode=0o600)
    users.write_text(f'"{behind["user"]}" "{behind["password"]}"\n')
    ini.write_text(
        f"""[databases]
* = host={behind["host"]} port={behind["port"]}

[pgbouncer]
listen_addr = {HOST}
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 100
"""
    )
    if user:
        for path in (home, users, ini):
            os.chown(path, *user)
    return ini
