"""Who we are to the API server, as our files say it now: tokens are replaced while the process runs."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.incluster_config import InClusterConfigLoader
from yaml import YAMLError

from fleetagent.domain.text import clean
from fleetagent.errors import CannotStart

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
READ_AGAIN_SECONDS = 60.0
LONGEST_REASON = 300

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Credentials:
    """The pod's ServiceAccount, else what the kubeconfig says: a token, its file, a plugin, a client certificate.

    A token that was replaced is used from the next minute on in a pod, and everywhere once the old one is refused.
    """

    account: Path = ACCOUNT
    clock: Callable[[], float] = time.monotonic
    _sent: str | None = field(init=False, default=None, repr=False)
    _read_at: float = field(init=False, default=0.0)
    _one_reads: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    async def load(self) -> Configuration:
        """What a client is set up with; `CannotStart` when nothing usable is found."""
        configuration = Configuration()
        try:
            await self._load(configuration)
        except (kube_config.ConfigException, YAMLError, OSError, LookupError, TypeError, ValueError) as error:
            shown = os.environ.get("KUBECONFIG") or "not set: ~/.kube/config is read"
            raise CannotStart(
                f"no Kubernetes API server is configured (KUBECONFIG is {shown}): {one_line(error)}"
            ) from error
        self._read_at = self.clock()
        self._sent = configuration.api_key.get("BearerToken")
        configuration.client_session_kwargs = {"middlewares": (self.present,)}
        return configuration

    async def _load(self, configuration: Configuration) -> None:
        if not self._in_pod():
            await kube_config.load_kube_config(client_configuration=configuration)
            return
        InClusterConfigLoader(
            token_filename=str(self.account / "token"),
            cert_filename=str(self.account / "ca.crt"),
            try_refresh_token=False,
        ).load_and_set(configuration)

    def home(self) -> str:
        """The namespace that is ours: the pod's, else the kubeconfig context's."""
        if self._in_pod():
            return (self.account / "namespace").read_text().strip()
        _, context = kube_config.list_kube_config_contexts()
        return str(context["context"].get("namespace") or "default")

    async def present(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Middleware of aiohttp's, around each request of each client: none keeps a token of its own."""
        if self._in_pod() and self.clock() - self._read_at > READ_AGAIN_SECONDS:
            await self._read_again(self._sent)
        sent = _put(self._sent, request)
        response = await handler(request)
        if response.status != 401 or not await self._read_again(sent):
            return response
        response.release()
        _put(self._sent, request)
        return await handler(request)

    async def _read_again(self, refused: str | None) -> bool:
        """Whether there is another one now than the one that was sent."""
        async with self._one_reads:
            if self._sent == refused:
                try:
                    await self.load()
                except CannotStart as error:
                    log.warning("the old credentials stay in use: %s", error)
            return self._sent != refused

    def _in_pod(self) -> bool:
        return (self.account / "namespace").exists()


def _put(authorization: str | None, request: aiohttp.ClientRequest) -> str | None:
    if authorization is not None:
        request.headers["Authorization"] = authorization
    return authorization


def one_line(said: object) -> str:
    """An error's words, short and in one line."""
    words = " ".join(clean(str(said), 4 * LONGEST_REASON).split())
    return words[:LONGEST_REASON] or type(said).__name__
