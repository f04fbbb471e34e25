"""Where the browser of the tests comes from; apt-get, dpkg-deb and ldd are played by scripts."""

from pathlib import Path

import pytest

from fleetagent.dev.chromium import FONTS, PROGRAM, cache_folder, find_chromium
from fleetagent.errors import CannotStart

APT_GET = """#!/bin/sh
echo "$@" >> "$APT_LOG"
case "$*" in *State::Lists*) OLD_LISTS= ;; esac
case "$*" in
*update) ;;
*--simulate*)
    if [ -n "$OLD_LISTS" ]; then echo "E: Unable to locate package chromium" >&2; exit 100; fi
    echo "Inst libc6 [2.36] (2.36-9 Debian:12 [amd64])"
    echo "Inst libnss3 (3.87 Debian:12 [amd64])"
    echo "Inst fonts-dejavu-core (2.37 Debian:12 [all])"
    echo "Inst chromium (156 Debian:12 [amd64])"
    echo "Conf chromium (156 Debian:12 [amd64])";;
*download*)
    for name; do case "$name" in chromium|lib*|fonts*) : > "$PWD/${name}_1.0_amd64.deb";; esac; done;;
esac
"""
DPKG_DEB = """#!/bin/sh
case "$2" in
*/chromium_*)
    /bin/mkdir -p "$3/usr/lib/chromium"
    echo '#!/bin/sh' > "$3/usr/lib/chromium/chromium"
    /bin/chmod +x "$3/usr/lib/chromium/chromium";;
*/fonts*) /bin/mkdir -p "$3/usr/share/fonts";;
*)
    /bin/mkdir -p "$3/usr/lib"
    : > "$3/usr/lib/libnss3.so";;
esac
"""
LDD = """#!/bin/sh
[ -e "$PWD/usr/lib/libnss3.so" ] || echo "	libnss3.so => not found"
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


def asked(environ: dict[str, str]) -> list[str]:
    return Path(environ["APT_LOG"]).read_text().splitlines()


def ignore(_: str) -> None:
    """Nobody reads it."""


def test_the_one_that_is_named_comes_before_the_one_on_the_path(environ: dict[str, str], tmp_path: Path) -> None:
    program(Path(environ["PATH"]) / "google-chrome")
    program(tmp_path / "mine")

    assert find_chromium(environ, progress=ignore).program == Path(environ["PATH"]) / "google-chrome"
    mine = str(tmp_path / "mine")
    assert find_chromium(environ | {"CHROMIUM": mine}, progress=ignore).program == tmp_path / "mine"
    assert not Path(environ["APT_LOG"]).exists()


def test_one_that_is_named_and_is_not_there_is_no_reason_to_take_another(environ: dict[str, str]) -> None:
    program(Path(environ["PATH"]) / "chromium")

    with pytest.raises(CannotStart, match="CHROMIUM is /nowhere/chromium, which is no program"):
        find_chromium(environ | {"CHROMIUM": "/nowhere/chromium"}, progress=ignore)


def test_else_it_is_fetched_once_with_all_that_is_missing_but_the_c_library(environ: dict[str, str]) -> None:
    found = find_chromium(environ, progress=ignore)

    tree = cache_folder(environ)
    assert found.program == tree / PROGRAM
    assert found.environ["LD_LIBRARY_PATH"] == str(tree / "usr/lib")
    assert str(tree / FONTS) in Path(found.environ["FONTCONFIG_FILE"]).read_text()
    assert asked(environ)[-1].endswith("download chromium libnss3 fonts-dejavu-core")
    before = asked(environ)
    assert find_chromium(environ, progress=ignore) == found
    assert asked(environ) == before


def test_one_whose_libraries_the_machine_lost_is_fetched_again(environ: dict[str, str]) -> None:
    find_chromium(environ, progress=ignore)
    (cache_folder(environ) / "usr/lib/libnss3.so").unlink()

    find_chromium(environ, progress=ignore)

    assert (cache_folder(environ) / "usr/lib/libnss3.so").exists()


def test_lists_of_its_own_are_read_where_the_machine_has_none(environ: dict[str, str]) -> None:
    find_chromium(environ | {"OLD_LISTS": "yes"}, progress=ignore)

    assert [line.split()[-1] for line in asked(environ)] == ["chromium", "update", "chromium", "fonts-dejavu-core"]


def test_a_machine_without_apt_get_is_told_what_to_do(environ: dict[str, str]) -> None:
    (Path(environ["PATH"]) / "apt-get").unlink()

    with pytest.raises(CannotStart, match=r"no apt-get.*or set CHROMIUM to its program"):
        find_chromium(environ, progress=ignore)


def test_a_package_without_the_browser_in_it_is_told_and_nothing_half_stays(environ: dict[str, str]) -> None:
    program(Path(environ["PATH"]) / "dpkg-deb")

    with pytest.raises(CannotStart, match=f"the package chromium of this system has no {PROGRAM}"):
        find_chromium(environ, progress=ignore)

    assert list(cache_folder(environ).parent.iterdir()) == []
