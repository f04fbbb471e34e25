"""Starts and stops the server: from the command line, or inside a test."""

import argparse
import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import uvicorn

from fleetagent.sim.model.app import application
from fleetagent.sim.model.config import COUNTERS, ModelConfig
from fleetagent.sim.model.count import text_tokens
from fleetagent.sim.model.personality import PERSONALITIES
from fleetagent.sim.model.thinking import Model

LAST_ANSWERS_SECONDS = 5
LARGEST_FACTOR = 100


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A server that is up."""

    url: str
    """The base URL that a client takes, ending in /v1."""

    control_url: str
    """Where /_sim and /health stand."""

    model: Model
    """The same state, without HTTP, for tests in this process."""


@asynccontextmanager
async def running(config: ModelConfig) -> AsyncIterator[ModelServer]:
    """Serve until the block ends; requests that are held or hang are dropped then. OSError if the port is taken."""
    text_tokens("")  # loads the vocabulary now, so that the first request is as quick as the others
    listening = _listen(config)
    host, port = listening.getsockname()[:2]
    model = Model(config)
    server = _Server(
        uvicorn.Config(
            application(model),
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        root = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        yield ModelServer(f"{root}/v1", root, model)
    finally:
        model.closing.set()
        server.should_exit = True
        await serving
        listening.close()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `fleetagent sim model` takes."""
    usual = ModelConfig()
    parser.add_argument(
        "--listen", type=_address, default="127.0.0.1:0", metavar="HOST:PORT", help="port 0: any free one"
    )
    parser.add_argument("--api-key", help="demanded on /v1 (default: none)")
    parser.add_argument("--model", default=usual.model, help="the name it answers to (default: %(default)s)")
    parser.add_argument(
        "--context-window", type=_tokens, default=usual.context_window, metavar="TOKENS", help="%(default)s"
    )
    parser.add_argument("--latency", type=float, default=usual.latency_seconds, metavar="SECONDS", help="per answer")
    parser.add_argument(
        "--personality",
        choices=sorted(PERSONALITIES),
        default=usual.personality.name,
        help="what it refuses (default: %(default)s)",
    )
    parser.add_argument(
        "--counter", choices=COUNTERS, default=usual.counter, help="whose exact token counter it has (%(default)s)"
    )
    parser.add_argument(
        "--counts-more",
        type=_factor,
        default=usual.counts_more,
        metavar="FACTOR",
        help="by which its token count differs from the vocabulary's (default: %(default)s)",
    )
    parser.add_argument(
        "--clips-at", type=_tokens, metavar="TOKENS", help="cut longer prompts without a word, as Ollama does"
    )


def main(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    host, port = args.listen
    config = ModelConfig(
        host=host,
        port=port,
        api_key=args.api_key,
        model=args.model,
        context_window=args.context_window,
        latency_seconds=args.latency,
        personality=PERSONALITIES[args.personality],
        counter=args.counter,
        counts_more=args.counts_more,
        clips_at=args.clips_at,
    )
    try:
        asyncio.run(_serve(config))
    except OSError as error:
        sys.stderr.write(f"the model server can't listen on {host}:{port}: {error.strerror}\n")
        return 1
    return 0


async def _serve(config: ModelConfig) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with running(config) as server:
        sys.stdout.write(f"model on {server.url} (scripted policy, no language model)\n")
        sys.stdout.flush()
        await stopped.wait()


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it: a test, or `main`."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(config: ModelConfig) -> socket.socket:
    """Bound and listening, so that the port is known and nobody is refused from here on."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where it sees the protocol; with it, each answer takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
        listening.listen(1024)
    except OSError:
        listening.close()
        raise
    return listening


def _tokens(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens")
    return int(text)


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < LARGEST_FACTOR:
        raise argparse.ArgumentTypeError(f"{text!r} is no factor between 0 and {LARGEST_FACTOR}")
    return factor


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)
