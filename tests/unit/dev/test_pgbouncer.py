"""Where pgbouncer comes from; apt-get, dpkg-deb and ldd are played by scripts."""

from pathlib import Path

import pytest

from fleetagent.dev.debs import with_libraries
from fleetagent.dev.pgbouncer import PROGRAM, cache_folder, find_pgbouncer
from fleetagent.errors import CannotStart

APT_GET = """#!/bin/sh
echo "$@" >> "$APT_LOG"
for last; do :; done
case "$*" in *State::Lists*) OLD_LISTS= ;; esac
if [ -n "$OLD_LISTS" ]; then echo "E: Unable to locate package $last" >&2; exit 100; fi
[ "$last" = update ] || : > "$PWD/${last}_1.0_amd64.deb"
"""
DPKG_DEB = """#!/bin/sh
if [ "$1" = -f ]; then echo "lsb-base (>= 3.1), libc6 (>= 2.36), libcares2:any (>= 1.12)"; exit; fi
case "$2" in
*/pgbouncer_*)
    /bin/mkdir -p "$3/usr/sbin"
    echo '#!/bin/sh' > "$3/usr/sbin/pgbouncer"
    /bin/chmod +x "$3/usr/sbin/pgbouncer";;
*)
    /bin/mkdir -p "$3/usr/lib"
    : > "$3/usr/lib/libcares.so.2";;
esac
"""
LDD = """#!/bin/sh
[ -e "$PWD/usr/lib/libcares.so.2" ] || echo "	libcares.so.2 => not found"
echo "	libc.so.6 => /lib/libc.so.6 (0x0)"
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with apt-get, whose cache is empty."""
    path = tmp_path / "path"
    path.mkdir()
    for name, text in (("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB), ("ldd", LDD)):
        program(path / name, text)
    return {"PATH": str(path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "APT_LOG": str(tmp_path / "apt.log")}


def program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.write_text(text)
    path.chmod(0o755)


def ignore(_: str) -> None:
    """Nobody reads it."""


@pytest.fixture(autouse=True)
def _no_pgbouncer_of_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fleetagent.dev.pgbouncer.SYSTEM_PROGRAMS", str(tmp_path / "none"))


def test_the_one_on_the_path_is_taken(environ: dict[str, str]) -> None:
    program(Path(environ["PATH"]) / "pgbouncer")

    assert find_pgbouncer(environ, progress=ignore) == Path(environ["PATH"]) / "pgbouncer"
    assert not Path(environ["APT_LOG"]).exists()


def test_else_it_is_fetched_once_with_the_libraries_that_are_missing(environ: dict[str, str]) -> None:
    found = find_pgbouncer(environ, progress=ignore)

    assert found == cache_folder(environ) / PROGRAM
    assert with_libraries(cache_folder(environ), {})["LD_LIBRARY_PATH"] == str(cache_folder(environ) / "usr/lib")
    asked = Path(environ["APT_LOG"]).read_text().splitlines()
    assert [line.split()[-1] for line in asked] == ["pgbouncer", "libcares2"]
    assert find_pgbouncer(environ, progress=ignore) == found
    assert Path(environ["APT_LOG"]).read_text().splitlines() == asked


def test_lists_of_its_own_are_read_where_the_machine_has_none(environ: dict[str, str]) -> None:
    find_pgbouncer(environ | {"OLD_LISTS": "yes"}, progress=ignore)

    asked = [line.split()[-1] for line in Path(environ["APT_LOG"]).read_text().splitlines()]
    assert asked[:3] == ["pgbouncer", "update", "pgbouncer"]


def test_a_machine_without_apt_get_is_told_what_to_do(environ: dict[str, str]) -> None:
    (Path(environ["PATH"]) / "apt-get").unlink()

    with pytest.raises(CannotStart, match=r"no apt-get.*install pgbouncer, so that it is on PATH"):
        find_pgbouncer(environ, progress=ignore)


def test_what_apt_get_says_is_told_and_nothing_half_stays(environ: dict[str, str]) -> None:
    program(Path(environ["PATH"]) / "apt-get", "#!/bin/sh\necho 'E: no network' >&2\nexit 100\n")

    with pytest.raises(CannotStart, match="E: no network"):
        find_pgbouncer(environ, progress=ignore)

    assert list(cache_folder(environ).parent.iterdir()) == []
