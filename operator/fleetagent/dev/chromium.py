"""The browser that the tests of the page drive: this machine's own, else Debian's, unpacked without being installed."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetagent.dev.binaries import to_stderr
from fleetagent.dev.cache import in_cache, this_system
from fleetagent.dev.debs import missing_libraries, unpacked_with_dependencies, with_libraries
from fleetagent.errors import CannotStart

PACKAGE = "chromium"
PROGRAM = "usr/lib/chromium/chromium"
"""Not the script of usr/bin, which looks for its parts in folders of the system."""
FONTS = "usr/share/fonts"
FONT_SETTINGS = "fonts.conf"
FONT_SETTINGS_TEXT = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
ON_PATH = ("chromium", "google-chrome", "google-chrome-stable")
HOW_TO_GET_IT = (
    "install Chromium or Google Chrome, so that it is on PATH, or set CHROMIUM to its program; "
    "on Debian it is fetched when apt-get may do so"
)


@dataclass(frozen=True, slots=True)
class Chromium:
    """A browser and the environment in which it starts."""

    program: Path
    environ: Mapping[str, str]


def find_chromium(environ: Mapping[str, str] = os.environ, *, progress: Callable[[str], None] = to_stderr) -> Chromium:
    """$CHROMIUM if it is set, else the one on $PATH, else one in our cache, which is filled first if need be."""
    if named := environ.get("CHROMIUM"):
        if shutil.which(named, path=environ.get("PATH")) is None:
            raise CannotStart(f"CHROMIUM is {named}, which is no program that can be started")
        return Chromium(Path(named), environ)
    for name in ON_PATH:
        if on_path := shutil.which(name, path=environ.get("PATH")):
            return Chromium(Path(on_path), environ)
    tree = cache_folder(environ)
    if not _usable(tree, environ):
        try:
            unpacked_with_dependencies(PACKAGE, PROGRAM, tree, environ=environ, progress=progress)
        except CannotStart as error:
            raise CannotStart(f"there is no Chromium ({error}): {HOW_TO_GET_IT}") from error
    return Chromium(tree / PROGRAM, _with_fonts(tree, with_libraries(tree, environ)))


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the Chromium that was fetched for this machine is kept, or will be."""
    return in_cache(environ, "chromium", this_system())


def _usable(tree: Path, environ: Mapping[str, str]) -> bool:
    """Whether it is there and whole; a cache that came from a machine with more libraries is fetched again."""
    if not (tree / PROGRAM).exists():
        return False
    if missing_libraries(tree, PROGRAM, environ):
        shutil.rmtree(tree)
        return False
    return True


def _with_fonts(tree: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Chromium ends where it finds no font at all: those that came with it are shown to it."""
    if not (tree / FONTS).is_dir():
        return dict(environ)
    settings = tree / FONT_SETTINGS
    if not settings.exists():
        settings.write_text(FONT_SETTINGS_TEXT.format(fonts=tree / FONTS))
    return {**environ, "FONTCONFIG_FILE": str(settings)}
