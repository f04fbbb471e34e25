"""`fleetagent dev`: everything from nothing on this machine, watched until it ends."""

import argparse
import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Protocol

from rich.console import Console

from fleetagent.dev import stack as stacks
from fleetagent.dev.attach import DevFile
from fleetagent.dev.cluster_setup import AGENT_NAMESPACE
from fleetagent.dev.facts import Facts, Reader, Sources
from fleetagent.dev.lines import Lines
from fleetagent.dev.screen import Screen
from fleetagent.dev.stack import Stack
from fleetagent.dev.verdict import Best, disagreements, in_numbers, off_target
from fleetagent.dev.view import Shown, to_try
from fleetagent.domain.records import AgentKey
from fleetagent.domain.resource import parse_duration
from fleetagent.errors import CannotStart

LOOK_EVERY_S = 0.5
SETTLES_WITHIN_S = 10.0
"""Ledger and market are read one after the other: what is under way at the end gets this long to arrive in both."""

LOG_LINES = 15
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Told(BaseException):
    """A signal asks us to end; no error handler may catch it by accident."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Display(Protocol):
    def show(self, facts: Facts, left: timedelta | None, /) -> None: ...
    def note(self, text: str, at: datetime, /) -> None: ...
    def close(self) -> None: ...


def main(args: argparse.Namespace) -> int:
    """Run until told to end, or for so long: 0 only if the target was reached and all books agree."""
    lasting = _lasting(args.lasting)
    with contextlib.ExitStack() as closing, _ended_by_signals() as stop_listening:
        try:
            file = closing.enter_context(DevFile.claimed(Path.cwd()))
            stack = stacks.start(closing, _say)
            file.write(stack.addresses())
            exit_code = _watch(stack, file, lasting, closing)
        except _Told as told:
            exit_code = _told_to_end(told, lasting)
        finally:
            stop_listening()
            closing.close()
    _say("everything has ended")
    return exit_code


def _told_to_end(told: _Told, lasting: timedelta | None) -> int:
    """To end it by a signal is the usual way, unless it was to end by itself with a verdict."""
    if lasting is None:
        return 0
    _say(f"ended by {signal.Signals(told.number).name} before its time: nothing was checked")
    return 128 + told.number


def _watch(stack: Stack, file: DevFile, lasting: timedelta | None, closing: contextlib.ExitStack) -> int:
    agent = AgentKey(AGENT_NAMESPACE, stack.agent_name)
    sources = Sources(stack.control_plane.api, stack.database_url, stack.market_url, stack.model_url)
    reader = closing.enter_context(Reader(sources, agent, cluster=stacks.CLUSTER))
    began = time.monotonic()
    facts, best = reader.look(), Best()
    display = _display(stack, facts.at)
    closing.callback(display.close)

    def left() -> timedelta | None:
        return None if lasting is None else lasting - timedelta(seconds=time.monotonic() - began)

    while (remaining := left()) is None or remaining > timedelta(0):
        if news := stack.operator.tick():
            file.write(stack.addresses())
            display.note(news, facts.at)
        facts = reader.look()
        best.note(facts)
        display.show(facts, left())
        time.sleep(LOOK_EVERY_S if remaining is None else min(LOOK_EVERY_S, max(0.0, remaining.total_seconds())))
    display.close()
    return _judge(stack, reader, best, lasting or timedelta(0))


def _judge(stack: Stack, reader: Reader, best: Best, lasted: timedelta) -> int:
    facts = reader.look()
    best.note(facts)
    wrong = list(off_target(facts, best, lasted))
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while (differ := disagreements(facts)) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
        stack.operator.tick()
        facts = reader.look()
    wrong += [each for each in differ if each not in wrong]
    _say("")
    for line in in_numbers(facts, best):
        _say(line)
    if not wrong:
        _say("ok: the target was reached within tolerance, ledger and market agree")
        return 0
    _say("not ok:")
    for each in wrong:
        _say(f"  - {each}")
    _say(f"the operator's last words ({stack.operator.restarts} restarts):")
    for line in stack.commands.last_lines(stack.operator.name, LOG_LINES):
        _say(f"  | {line}")
    return 1


def _display(stack: Stack, since: datetime) -> _Display:
    console = Console()
    kubectl = None if shutil.which("kubectl") else stack.binaries.kubectl
    shown = Shown(stack.agent_name, stack.control_plane.kubeconfig, kubectl)
    if console.is_terminal:
        return Screen(console, shown)
    for typed, meaning in to_try(shown.name, shown.kubeconfig, shown.kubectl):
        _say(f"         {typed}" + (f"  # {meaning}" if meaning else ""))
    return Lines(since)


def _lasting(text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        lasting = parse_duration(text)
    except ValueError as error:
        raise CannotStart(f"--for: {error}") from error
    if not lasting:
        raise CannotStart("--for: must be longer than 0s")
    return lasting


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[Callable[[], None]]:
    """Raise `_Told` for a signal that asks us to end, until the function that is given is called: then ignore them."""

    def told(number: int, _frame: FrameType | None) -> None:
        raise _Told(number)

    given_up = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()  # under nohup
    before = {each: signal.signal(each, told) for each in ENDING_SIGNALS if each not in given_up}

    def ignore() -> None:
        for each in ENDING_SIGNALS:
            signal.signal(each, signal.SIG_IGN)

    try:
        yield ignore
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _say(text: str) -> None:
    print(text, file=sys.stdout, flush=True)
