"""Where promtool comes from; apt-get, dpkg-deb and ldd are played by scripts."""

from pathlib import Path

import pytest

from fleetagent.dev.promtool import PROGRAM, cache_folder, find_promtool
from fleetagent.errors import CannotStart

APT_GET = '#!/bin/sh\n: > "$PWD/prometheus_2.42.0_amd64.deb"\n'
DPKG_DEB = f"""#!/bin/sh
/bin/mkdir -p "$3/usr/bin"
echo '#!/bin/sh' > "$3/{PROGRAM}"
/bin/chmod +x "$3/{PROGRAM}"
"""
LDD = '#!/bin/sh\necho "	libc.so.6 => /lib/libc.so.6 (0x0)"\n'


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with apt-get, whose cache is empty."""
    path = tmp_path / "path"
    path.mkdir()
    for name, text in (("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB), ("ldd", LDD)):
        program(path / name, text)
    return {"PATH": str(path), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.write_text(text)
    path.chmod(0o755)


def ignore(_: str) -> None:
    """Nobody reads it."""


def test_the_one_on_the_path_is_taken(environ: dict[str, str]) -> None:
    program(Path(environ["PATH"]) / "promtool")

    assert find_promtool(environ, progress=ignore) == Path(environ["PATH"]) / "promtool"


def test_else_it_is_fetched_once(environ: dict[str, str]) -> None:
    found = find_promtool(environ, progress=ignore)
    (Path(environ["PATH"]) / "apt-get").unlink()

    assert found == cache_folder(environ) / PROGRAM
    assert find_promtool(environ, progress=ignore) == found


def test_a_machine_without_apt_get_is_told_what_to_do(environ: dict[str, str]) -> None:
    (Path(environ["PATH"]) / "apt-get").unlink()

    with pytest.raises(CannotStart, match=r"no apt-get.*install Prometheus' promtool, so that it is on PATH"):
        find_promtool(environ, progress=ignore)
