"""What `fleetagent dev` starts, in order, and where it is then."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetagent.dev.attach import Addresses
from fleetagent.dev.binaries import Binaries, find_binaries
from fleetagent.dev.cluster_setup import HOME, MARKET_KEY, PERSON, apply, example_agent, prepare
from fleetagent.dev.commands import PREFIX, Commands, command, environment
from fleetagent.dev.controlplane import ControlPlane, KubectlError
from fleetagent.dev.loopback import HOST
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.dev.supervisor import Supervisor
from fleetagent.errors import CannotStart

CLUSTER = "dev"
SEED = 7
TIME_SCALE = 600
MODEL_SECONDS = 0.2  # per answer, so that one can see it think
DATABASE = "fleetagent"

# Machines move within seconds here, and the market is ours: look often, do not pace the calls, take over quickly.
PACE = {
    "FLEETAGENT_LEASE_SECONDS": "6",
    "FLEETAGENT_BEAT_SECONDS": "2",
    "FLEETAGENT_LOOK_SECONDS": "2",
    "FLEETAGENT_SETTLING_SECONDS": "20",
    "FLEETAGENT_CONFIRM_GONE_SECONDS": "3",
    "FLEETAGENT_MARKET_PACING": "false",
}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stack:
    """Everything, up and running."""

    binaries: Binaries
    control_plane: ControlPlane
    commands: Commands
    operator: Supervisor
    agent_name: str
    database_url: str
    market_url: str
    model_url: str

    def addresses(self) -> Addresses:
        """What other tools need to attach."""
        ports = self.operator.ports
        return Addresses(
            kubeconfig=str(self.control_plane.kubeconfig),
            databaseURL=self.database_url,
            marketURL=self.market_url,
            modelURL=self.model_url,
            workerURL=f"http://{HOST}:{ports.worker}",
            webURL=f"http://{HOST}:{ports.web}",
            pid=self.operator.pid,
        )


def start(closing: contextlib.ExitStack, say: Say) -> Stack:
    """Return once the operator watches and its first agent is applied; `closing` ends all of it, last things first."""
    binaries = find_binaries(progress=say)  # builds them if there are none: minutes, once
    say = _timed(say)
    commands = closing.enter_context(Commands.open("dev"))
    _start_simulators(commands)  # they load while the others start
    control_plane = closing.enter_context(ControlPlane.start(binaries=binaries, progress=say))
    say(f"Kubernetes API    {control_plane.server_url}")
    postgres = closing.enter_context(EmbeddedPostgres.start())
    database_url = postgres.create_database(DATABASE)
    say(f"Postgres          {HOST}:{database_url.rpartition(':')[2]}")
    market_url, model_url = (commands.announced_url(name) for name in ("marketplace", "model"))
    say(f"GPU market        {market_url}  (simulated, {TIME_SCALE} times as fast)")
    say(f"model             {model_url}  (scripted, no language model)")
    try:
        kubeconfig = prepare(control_plane)
        token = control_plane.token_for(PERSON, HOME)
        operator = Supervisor.started(commands, operator_environment(kubeconfig, database_url, token))
        say(f"operator          process {operator.pid}, as the chart's ServiceAccount")
        say(f"page              http://{HOST}:{operator.ports.web}  (no login on this machine)")
        agent = example_agent(model_url=model_url, market_url=market_url)
        apply(control_plane, [agent])
    except KubectlError as error:
        raise CannotStart(str(error)) from error
    name = str(agent["metadata"]["name"])
    say(f"FleetAgent        {agent['metadata']['namespace']}/{name} applied")
    return Stack(binaries, control_plane, commands, operator, name, database_url, market_url, model_url)


def operator_environment(
    kubeconfig: Path, database_url: str, page_token: str, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The operator's settings: the caller's own may change the pace, never what is connected to what."""
    ours = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    allowed = [HOST, "localhost", *filter(None, [ours.get("FLEETAGENT_ALLOWED_HOSTS")])]
    connected = {
        "KUBECONFIG": str(kubeconfig),
        "FLEETAGENT_DATABASE_URL": database_url,
        "FLEETAGENT_WEB_TOKEN": page_token,
        "FLEETAGENT_CLUSTER": CLUSTER,
        "FLEETAGENT_ALLOWED_HOSTS": ",".join(allowed),
    }
    return {**environment(environ), **PACE, **ours, **connected}


def _start_simulators(commands: Commands) -> None:
    market = ["--seed", str(SEED), "--time-scale", str(TIME_SCALE), "--api-key", MARKET_KEY]
    market += ["--reliable", "--still"]  # 600 times as fast, prices would change while the model thinks
    for name, arguments in (("marketplace", market), ("model", ["--latency", str(MODEL_SECONDS)])):
        commands.start(name, command("sim", name, *arguments), env=environment())


def _timed(say: Say) -> Say:
    since = time.monotonic()
    return lambda text: say(f"{time.monotonic() - since:5.1f} s  {text}")
