"""The command line: operator, migrate, dev, sim marketplace, sim model, crd, sweep, alerts-test."""

# ruff: noqa: PLC0415 - each command imports what it needs when it runs: `crd` must not wait for kopf

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fleetagent.errors import CannotStart

Command = Callable[[argparse.Namespace], int]

GARBAGE_AFTER = (5_000, 10, 5)
"""Python's own numbers (700, 10, 10) go through all that is known of all agents several times in one rush of runs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. What keeps a process from starting is one line and exit code 1."""
    args = _parser().parse_args(argv)
    command: Command = args.command
    _have_a_home()
    try:
        return command(args)
    except CannotStart as error:
        sys.stderr.write(f"fleetagent: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _have_a_home() -> None:
    """The Kubernetes client asks for one when it is imported; a container's user may have neither $HOME nor a name."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = "/"


def _operator(_: argparse.Namespace) -> int:
    gc.disable()  # modules are no garbage: going through them, again and again, is a third of the start
    from fleetagent.bootstrap.logs import log_as
    from fleetagent.bootstrap.serve import serve
    from fleetagent.settings import read_settings

    gc.freeze()
    gc.enable()
    gc.set_threshold(*GARBAGE_AFTER)
    settings = read_settings()
    log_as(settings.log_format)
    asyncio.run(serve(settings))
    return 0


def _migrate(args: argparse.Namespace) -> int:
    from fleetagent.adapters.postgres.migrate import migrate_to
    from fleetagent.adapters.postgres.revisions import head
    from fleetagent.bootstrap.logs import log_as
    from fleetagent.settings import read_settings

    settings = read_settings()
    log_as(settings.log_format)
    revision = migrate_to(settings.database_url.get_secret_value(), args.to or head(), wait=args.wait)
    logging.getLogger("fleetagent").info("the database has schema %s", revision)
    return 0


def _crd(_: argparse.Namespace) -> int:
    from fleetagent.domain.resource import crd_yaml

    sys.stdout.write(crd_yaml())
    return 0


def _dev(args: argparse.Namespace) -> int:
    from fleetagent.dev.demo import main as dev_main

    return dev_main(args)


def _sim_marketplace(args: argparse.Namespace) -> int:
    from fleetagent.sim.marketplace import main as marketplace_main

    return marketplace_main(args)


def _sim_model(args: argparse.Namespace) -> int:
    from fleetagent.sim.model import main as model_main

    return model_main(args)


def _sweep(args: argparse.Namespace) -> int:
    from fleetagent.bootstrap.sweep import sweep

    return asyncio.run(sweep(args))


def _alerts_test(args: argparse.Namespace) -> int:
    from fleetagent.bootstrap.alerts_test import alerts_test

    return asyncio.run(alerts_test(args))


def _parser() -> argparse.ArgumentParser:
    """Each command imports what it needs when it runs: `crd` must not wait for kopf."""
    parser = argparse.ArgumentParser(prog="fleetagent", description="Agents that keep a rented GPU fleet on target.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("operator", help="run the operator").set_defaults(command=_operator)
    migrate = commands.add_parser("migrate", help="bring the database to this version's schema")
    migrate.add_argument("--to", metavar="SCHEMA", help="to this one, as the older version that comes next needs it")
    migrate.add_argument("--wait", action="store_true", help="until the database answers, however long that takes")
    migrate.set_defaults(command=_migrate)
    commands.add_parser("crd", help="print the CustomResourceDefinition").set_defaults(command=_crd)
    dev = commands.add_parser("dev", help="everything from nothing on this machine, with a live view")
    dev.add_argument("--for", dest="lasting", metavar="DURATION", help="end by itself after this time, such as 90s")
    dev.set_defaults(command=_dev)
    sweep = commands.add_parser("sweep", help="list machines by our label, wherever they came from; end them if asked")
    sweep.add_argument("--destroy", action="store_true", help="destroy them, once you have seen the list")
    sweep.add_argument("--namespace", help="only this namespace's FleetAgent (with --name)")
    sweep.add_argument("--name", help="only this FleetAgent (with --namespace)")
    sweep.add_argument(
        "--cluster", help="the operator's cluster name (with --name; default: $FLEETAGENT_CLUSTER, or 'default')"
    )
    sweep.add_argument("--all", action="store_true", help="with --destroy: those of every agent of every cluster")
    sweep.add_argument("--market-url", default="https://console.vast.ai", help="default: %(default)s")
    sweep.add_argument("--api-key-file", required=True, help="file that holds the market's API key, or - for stdin")
    sweep.set_defaults(command=_sweep)
    test = commands.add_parser("alerts-test", help="send a test to each receiver of a FleetAgent's alerts")
    test.add_argument("--namespace", required=True, help="the FleetAgent's namespace")
    test.add_argument("--name", required=True, help="its name")
    test.set_defaults(command=_alerts_test)
    sim = commands.add_parser("sim", help="servers instead of the world").add_subparsers(required=True, metavar="WHAT")
    _simulators(sim, sys.argv[1:])
    return parser


def _simulators(sim: "argparse._SubParsersAction[argparse.ArgumentParser]", argv: Sequence[str]) -> None:
    market = sim.add_parser("marketplace", help="an HTTP server that speaks vast.ai's API")
    model = sim.add_parser("model", help="an OpenAI-compatible server with a scripted policy")
    if argv[:1] == ["sim"]:
        from fleetagent.sim import marketplace as market_package
        from fleetagent.sim import model as model_package

        market_package.add_arguments(market)
        model_package.add_arguments(model)
    market.set_defaults(command=_sim_marketplace)
    model.set_defaults(command=_sim_model)


if __name__ == "__main__":
    sys.exit(main())
