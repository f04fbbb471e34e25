"""The line between an operator and its API server: a wire, and behind it a proxy that reads what goes by."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx

from fleetagent.dev.controlplane import TOKEN_LIFETIME
from support.ports import free_port
from support.proxy import ApiProxy, a_proxy, by_way_of, token_in
from support.stage import ACCOUNT, Stage
from support.wire import Wire, a_wire

SILENT_SECONDS = 12
"""What else is bounded follows from it: a watch ends after 4 s, and is given up after 3 s without a word."""
STARTED_WITHIN_S = 120.0
SERVED_WITHIN_S = 30.0
"""A patch that was under way is given up after 6 s and tried again for 4, its resource rests for up to 8, and so on."""


@dataclass
class Line:
    """A stage whose operator is at the other end."""

    stage: Stage
    wire: Wire
    proxy: ApiProxy
    kubeconfig: Path
    token_file: Path | None
    lifetime: timedelta
    health: str

    def start_operator(self, **settings: str) -> None:
        """Start it at this end of the line."""
        told = {"silent_seconds": str(SILENT_SECONDS), "health_listen": self.health, **settings}
        self.stage.start_operator(**told)
        self.stage.wait_for(lambda: self.ready()[0] == 200, "ready", STARTED_WITHIN_S)

    def alive(self) -> tuple[int, str]:
        """What /healthz says."""
        return self._ask("healthz")

    def ready(self) -> tuple[int, str]:
        """What /readyz says."""
        return self._ask("readyz")

    def token(self) -> str:
        """The token that the operator's files hold now."""
        return token_in(self.kubeconfig)

    def new_token(self) -> str:
        """Put another token of the same account there, in one step as a kubelet does."""
        folder = self.stage.folder / "next"
        folder.mkdir(exist_ok=True)
        own_file = self.token_file is not None
        made = _kubeconfig(self.stage, self.wire.port, folder, self.lifetime, token_in_file=own_file)
        if self.token_file is not None:
            (folder / "token").replace(self.token_file)
        else:
            made.replace(self.kubeconfig)
        return self.token()

    def _ask(self, what: str) -> tuple[int, str]:
        try:
            answer = httpx.get(f"http://{self.health}/{what}", trust_env=False, timeout=15)
        except httpx.TransportError as error:
            return 0, repr(error)
        return answer.status_code, answer.text


def _kubeconfig(stage: Stage, port: int, folder: Path, lifetime: timedelta, *, token_in_file: bool) -> Path:
    straight = stage.cluster.kubeconfig_for(ACCOUNT, stage.home, lifetime=lifetime)
    return by_way_of(port, straight, folder / "kubeconfig", token_file=folder / "token" if token_in_file else None)


@contextmanager
def a_line(stage: Stage, *, token_in_file: bool = True, lifetime: timedelta = TOKEN_LIFETIME) -> Iterator[Line]:
    """A line that is well; `line.start_operator()` puts an operator at its end."""
    with a_proxy(stage.cluster) as proxy, a_wire(proxy.port) as wire:
        kubeconfig = _kubeconfig(stage, wire.port, stage.folder, lifetime, token_in_file=token_in_file)
        stage.kubeconfig = kubeconfig
        token_file = stage.folder / "token" if token_in_file else None
        yield Line(stage, wire, proxy, kubeconfig, token_file, lifetime, f"127.0.0.1:{free_port()}")
