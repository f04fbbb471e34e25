"""Where the programs of the control plane come from."""

import hashlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetagent.dev.cache import in_cache
from fleetagent.dev.gobuild import BUILT_NAMES, build
from fleetagent.errors import CannotStart

GO_MODULE = Path(__file__).parents[3] / "tests" / "controlplane"
"""In the repository; an installed package has none."""

SET_ASSETS = f"set KUBEBUILDER_ASSETS to a folder that holds {', '.join(BUILT_NAMES)}"


def to_stderr(line: str) -> None:
    """Show progress where it does not mix with results."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs, all of them executable."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kubectl: Path


def find_binaries(
    environ: Mapping[str, str] = os.environ,
    *,
    go_module: Path = GO_MODULE,
    progress: Callable[[str], None] = to_stderr,
) -> Binaries:
    """Each from $KUBEBUILDER_ASSETS, else from our cache, which is filled first if need be; kubectl also from $PATH."""
    found = _in_assets(environ)
    if "kubectl" not in found and (on_path := shutil.which("kubectl", path=environ.get("PATH"))):
        found["kubectl"] = Path(on_path)
    if missing := [name for name in BUILT_NAMES if name not in found]:
        if not (go_module / "go.sum").is_file():
            raise CannotStart(f"no {', '.join(missing)}: {SET_ASSETS}, or work in a clone of the repository")
        cache = cache_folder(environ, go_module=go_module)
        if not _complete(cache):
            build(go_module, cache, version=kubernetes_version(go_module), environ=environ, progress=progress)
        found |= {name: cache / name for name in missing}
    return Binaries(**{name.replace("-", "_"): path for name, path in found.items()})


def cache_folder(environ: Mapping[str, str] = os.environ, *, go_module: Path = GO_MODULE) -> Path:
    """Where the programs that this go.mod builds for this machine are kept, or will be."""
    inputs = (go_module / "go.mod").read_bytes() + (go_module / "go.sum").read_bytes()
    machine = f"{sys.platform} {platform.machine()}".encode()  # home folders are shared between machines
    digest = hashlib.sha256(inputs + machine).hexdigest()[:12]
    return in_cache(environ, "controlplane", f"{kubernetes_version(go_module)}-{digest}")


def kubernetes_version(go_module: Path) -> str:
    """Such as v1.36.3."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+\S*)", (go_module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise CannotStart(f"{go_module / 'go.mod'} requires no version of k8s.io/kubernetes")
    return found[1]


def _in_assets(environ: Mapping[str, str]) -> dict[str, Path]:
    """What envtest's folder has; usually that is all but kube-controller-manager."""
    if not (assets := environ.get("KUBEBUILDER_ASSETS")):
        return {}
    if not Path(assets).is_dir():
        raise CannotStart(f"KUBEBUILDER_ASSETS is {assets}, which is no folder")
    candidates = {name: Path(assets).absolute() / name for name in BUILT_NAMES}
    return {name: path for name, path in candidates.items() if os.access(path, os.X_OK)}


def _complete(cache: Path) -> bool:
    return all(os.access(cache / name, os.X_OK) for name in BUILT_NAMES)
