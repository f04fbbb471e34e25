"""Programs from packages of Debian or Ubuntu, unpacked into a folder: nothing is installed, and root is not needed."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fleetagent.dev.cache import beside
from fleetagent.errors import CannotStart

LAST_LINES = 15
FETCHED_WITHIN_S = 900.0
OF_THE_MACHINE = ("libc6", "libc-bin")  # a C library beside the machine's own would break every program


def unpacked(
    package: str, program: str, target: Path, *, environ: Mapping[str, str], progress: Callable[[str], None]
) -> None:
    """Fill `target` with the package and with those libraries that this machine lacks."""
    _must_have(package, environ)
    progress(f"fetching {package} with apt-get, once")
    with beside(target) as work:
        tree = work / "tree"
        (file,) = _fetched([package], work, environ)
        _unpack(file, tree, environ)
        if missing_libraries(tree, program, environ):
            for library in _library_packages(file, environ):
                (file,) = _fetched([library], work, environ)
                _unpack(file, tree, environ)
        if still := missing_libraries(tree, program, environ):
            raise CannotStart(f"{package} needs {', '.join(still)}, which none of its packages has")
        if not target.exists():  # another process may have been faster
            tree.replace(target)


def unpacked_with_dependencies(
    package: str, program: str, target: Path, *, environ: Mapping[str, str], progress: Callable[[str], None]
) -> None:
    """Fill `target` with the package and all that it depends on, directly or not, and that this machine lacks."""
    _must_have(package, environ)
    progress(f"fetching {package} and what it depends on with apt-get, once")
    with beside(target) as work:
        tree = work / "tree"
        for file in _fetched([package], work, environ, with_dependencies=True):
            _unpack(file, tree, environ)
        if not (tree / program).is_file():
            raise CannotStart(f"the package {package} of this system has no {program}")
        if missing := missing_libraries(tree, program, environ):
            raise CannotStart(f"{package} needs {', '.join(missing)}, which none of its packages has")
        if not target.exists():  # another process may have been faster
            tree.replace(target)


def with_libraries(tree: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a program of this tree finds the libraries that came with it."""
    folders = sorted({str(library.parent) for library in tree.rglob("*.so*")})
    given = [environ["LD_LIBRARY_PATH"]] if environ.get("LD_LIBRARY_PATH") else []
    return {**environ, "LD_LIBRARY_PATH": os.pathsep.join([*folders, *given])}


def missing_libraries(tree: Path, program: str, environ: Mapping[str, str]) -> list[str]:
    """What the dynamic linker would not find."""
    said = _run(["ldd", str(tree / program)], cwd=tree, environ=with_libraries(tree, environ))
    return re.findall(r"^\s*(\S+) => not found", said, re.MULTILINE)


def _must_have(package: str, environ: Mapping[str, str]) -> None:
    for needed in ("apt-get", "dpkg-deb", "ldd"):
        if shutil.which(needed, path=environ.get("PATH")) is None:
            raise CannotStart(f"this machine has no {needed}, with which {package} would be fetched")


def _fetched(
    packages: Sequence[str], folder: Path, environ: Mapping[str, str], *, with_dependencies: bool = False
) -> list[Path]:
    """Their files; where this machine's lists of packages are missing or old, new ones are read beside them."""
    sandbox = "-oAPT::Sandbox::User=root"  # else it warns that its own user can't write here
    apt_get = ["apt-get", sandbox]
    try:
        return _downloaded(packages, apt_get, folder, environ, with_dependencies=with_dependencies)
    except CannotStart:
        for part in ("lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        apt_get += [f"-oDir::State::Lists={folder / 'lists'}", f"-oDir::Cache={folder / 'cache'}"]
        _run([*apt_get, "update"], cwd=folder, environ=environ)
        return _downloaded(packages, apt_get, folder, environ, with_dependencies=with_dependencies)


def _downloaded(
    packages: Sequence[str],
    apt_get: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    *,
    with_dependencies: bool,
) -> list[Path]:
    names = list(packages)
    if with_dependencies:
        plan = _run([*apt_get, "--simulate", "--no-install-recommends", "install", *names], cwd=folder, environ=environ)
        names += [
            name for name in re.findall(r"^Inst ([^ :]+)", plan, re.MULTILINE) if name not in {*names, *OF_THE_MACHINE}
        ]
    _run([*apt_get, "download", *names], cwd=folder, environ=environ)
    return [next(folder.glob(f"{name}_*.deb")) for name in names]


def _unpack(file: Path, tree: Path, environ: Mapping[str, str]) -> None:
    tree.mkdir(exist_ok=True)
    _run(["dpkg-deb", "-x", str(file), str(tree)], cwd=tree, environ=environ)


def _library_packages(file: Path, environ: Mapping[str, str]) -> list[str]:
    """Which libraries a package depends on; the C library is this machine's own in any case."""
    depends = _run(["dpkg-deb", "-f", str(file), "Depends"], cwd=file.parent, environ=environ)
    names = [part.split()[0].split(":")[0] for part in depends.split(",") if part.strip()]
    return [name for name in names if name.startswith("lib") and name != "libc6"]


def _run(command: Sequence[str], *, cwd: Path, environ: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCHED_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise CannotStart(f"`{command[0]} … {command[-1]}` took longer than {FETCHED_WITHIN_S:.0f} s") from late
    if done.returncode:
        last_lines = "\n".join((done.stderr or done.stdout).splitlines()[-LAST_LINES:])
        raise CannotStart(f"`{' '.join(command[:1])} … {command[-1]}` failed:\n{last_lines}")
    return done.stdout
