"""The command line of `kubectl fleetagent`. docs/reference/kubectl.md is made from it."""

import argparse
from collections.abc import Callable

from fleetagent.plugin import looking, opening, past, steering
from fleetagent.plugin.person import Person
from fleetagent.plugin.report import report

PROG = "kubectl fleetagent"
FORMS = ("wide", "json", "yaml")
Command = Callable[[Person], int]


class CommandLine:
    """Adds commands one by one; each takes the options that kubectl has everywhere, before its name or after it."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser(
            prog=PROG,
            description="See and steer FleetAgents, with your own kubeconfig and rights.",
            allow_abbrev=False,
        )
        _connection(self.parser, kubeconfig=None, context=None, namespace=None)
        self._commands = self.parser.add_subparsers(required=True, metavar="COMMAND")

    def add(self, name: str, command: Command, says: str, *, agent: bool = True) -> argparse.ArgumentParser:
        """A command, as a rule about one FleetAgent."""
        made = self._commands.add_parser(name, help=says, description=_sentence(says), allow_abbrev=False)
        made.set_defaults(command=command)
        _connection(made, **dict.fromkeys(("kubeconfig", "context", "namespace"), argparse.SUPPRESS))
        if agent:
            made.add_argument("name", metavar="NAME", help="the FleetAgent")
        return made


def _connection(made: argparse.ArgumentParser, **defaults: str | None) -> None:
    made.add_argument("--kubeconfig", metavar="FILE", default=defaults["kubeconfig"], help="instead of $KUBECONFIG")
    made.add_argument("--context", metavar="NAME", default=defaults["context"], help="of the kubeconfig")
    made.add_argument(
        "-n", "--namespace", metavar="NAME", default=defaults["namespace"], help="instead of the context's"
    )


def command_line() -> argparse.ArgumentParser:
    """All commands with their options."""
    line = CommandLine()
    _looking(line)
    _past(line)
    _steering(line)
    _beside(line)
    return line.parser


def _looking(line: CommandLine) -> None:
    made = line.add("list", looking.list_agents, "the FleetAgents of a namespace, or of all", agent=False)
    made.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    _shown(made)
    _shown(line.add("status", looking.status, "one FleetAgent at a glance: figures, last run, conditions"))


def _past(line: CommandLine) -> None:
    made = _listed(line.add("runs", past.runs, "the newest runs"))
    made.add_argument("--outcome", metavar="WORD", help="only those that ended so, such as Acted or Failed")
    made.add_argument("--trigger", metavar="WORD", help="only those that began for this, such as Wake or Request")
    made.add_argument("--since", metavar="MOMENT", help="from then on, such as 2026-12-01T08:00:00Z")
    made.add_argument("--until", metavar="MOMENT", help="before then")
    made = _asked(line.add("run", past.run, "one run with its actions, refusals and messages"))
    made.add_argument("id", metavar="RUN", type=_number, help="its number")
    made = _listed(
        line.add("conversation", past.conversation, "what the model was told and said, and what it sees now")
    )
    made.add_argument("--session", metavar="NUMBER", type=_number, help="an earlier one; without: the current one")
    made.add_argument("--in-prompt", action="store_true", help="only what the model sees now")
    made.add_argument(
        "--export", action="store_true", help="the whole session as JSON Lines, in chat-completions format"
    )
    made = _listed(line.add("fleet", past.fleet, "the machines, their phases, rates and prices"))
    made.add_argument("--ended", action="store_true", help="those too that are gone or have failed")
    made = _asked(line.add("spend", past.spend, "what each UTC day has cost"))
    made.add_argument("--days", metavar="NUMBER", type=_number, default=30, help="so many; without: 30")
    made = _listed(line.add("alerts", past.alerts, "the alerts that are open"))
    made.add_argument("--all", action="store_true", help="those too that are acknowledged or resolved")


def _steering(line: CommandLine) -> None:
    _answered(line.add("trigger", steering.trigger, "ask for a run now"))
    _answered(line.add("reset", steering.reset, "archive the conversation and begin a new one"))
    made = _answered(line.add("message", steering.message, "say something to the agent, in the operator's name"))
    made.add_argument("text", metavar="TEXT", help="at most 2,000 characters; - reads standard input")
    _replacing(made)
    made = _answered(line.add("ack", steering.acknowledge, "acknowledge an alert"))
    made.add_argument("alert", metavar="ALERT", help="such as alert-17")
    made.add_argument("comment", metavar="COMMENT", nargs="?", default="", help="told to the agent")
    _replacing(made)
    for name, command, says in (
        ("approve", steering.approve, "let actions happen that wait for a person"),
        ("reject", steering.reject, "let actions end that wait for a person"),
    ):
        made = _answered(line.add(name, command, says))
        made.add_argument("actions", metavar="ACTION", nargs="+", help="such as action-42")
    made = _answered(line.add("pause", steering.pause, "refuse launches, stops or both for a while; runs go on"))
    end = made.add_mutually_exclusive_group(required=True)
    end.add_argument("--for", dest="lasting", metavar="DURATION", help="such as 2h; this or --until must be said")
    end.add_argument("--until", metavar="MOMENT", help="such as 2026-12-01T08:00:00Z")
    made.add_argument("--reason", default="", metavar="TEXT", help="shown to people and said to the agent")
    made.add_argument("--up", action="store_true", help="refuse launches; so it is without --down, too")
    made.add_argument("--down", action="store_true", help="refuse stops")
    _answered(line.add("resume", steering.resume, "end a pause before its time"))


def _beside(line: CommandLine) -> None:
    made = line.add("open", opening.open_page, "open the page in the browser, signed in", agent=False)
    made.add_argument("name", metavar="NAME", nargs="?", help="the FleetAgent; without: the list of all")
    made.add_argument("--no-browser", action="store_true", help="only say which address to open")
    _reached(made)
    made = line.add(
        "report", report, "an archive for a bug report, without secrets: spec, status, Events, runs, versions, log"
    )
    made.add_argument("--to", metavar="FILE", help="instead of fleetagent-NAME-TIME.tar.gz; never overwritten")
    _reached(made)


def _shown(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    made.add_argument("-o", "--output", choices=FORMS, help="more columns, or all of it for programs")
    made.add_argument("-w", "--watch", action="store_true", help="show it again when it changes, until Ctrl-C")
    return made


def _asked(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """What our API answers, by --server or a port-forward."""
    _reached(made)
    return _shown(made)


def _listed(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    made.add_argument("--limit", metavar="NUMBER", type=_number, default=20, help="at most so many; without: 20")
    return _asked(made)


def _reached(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--server", metavar="URL", help="the address of page and API; without: a port-forward to the operator"
    )
    made.add_argument("--operator-namespace", metavar="NAME", help="where the operator is; without: it is looked for")
    made.add_argument(
        "--as-service-account",
        metavar="[NAMESPACE/]NAME",
        help="show a fresh token of this account, which you may ask for",
    )


def _number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _answered(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    made.set_defaults(replace=False, wait="0s")
    made.add_argument("-o", "--output", choices=FORMS[1:], help="the patch that was sent, for programs")
    return made


def _replacing(made: argparse.ArgumentParser) -> None:
    wait = "how long for an earlier one to be heard, which this one would take the place of; without: 15s"
    made.add_argument("--wait", metavar="DURATION", default="15s", help=wait)
    made.add_argument("--replace", action="store_true", help="in place of an earlier one that was perhaps not heard")


def _sentence(says: str) -> str:
    return f"{says[:1].upper()}{says[1:]}."
