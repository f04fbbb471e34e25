"""Who types: their kubeconfig and rights, their terminal, and the clock on their wall."""

import argparse
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property

from rich.console import Group, RenderableType
from rich.text import Text

from fleetagent.domain.records import AgentKey
from fleetagent.errors import BadReply, TryLater
from fleetagent.plugin.apiserver import ApiServer
from fleetagent.plugin.kubeconfig import Login, log_in
from fleetagent.plugin.terminal import Terminal, line, written

LOOKS_AGAIN_SECONDS = 2.0

Draw = Callable[[], RenderableType]
Seen = tuple[object, Draw]
Look = Callable[[], Seen]
"""Asks anew: the answer for programs, and what draws a picture of it for people."""


class Person:
    """What every command needs. The kubeconfig is read, and the API server asked, when a command does."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.terminal = Terminal(getattr(args, "output", None))

    @cached_property
    def login(self) -> Login:
        """Their kubeconfig."""
        return log_in(self.args.kubeconfig, self.args.context)

    @cached_property
    def kubernetes(self) -> ApiServer:
        """The API server, asked in their name."""
        return ApiServer(self.login)

    @property
    def namespace(self) -> str:
        """The one that is meant."""
        named: str | None = self.args.namespace
        return named or self.login.namespace

    @property
    def agent(self) -> AgentKey:
        """The FleetAgent that the command names."""
        return AgentKey(self.namespace, self.args.name)

    def now(self) -> datetime:
        """The moment at which something is shown or said."""
        return datetime.now(UTC)  # noqa: TID251  # the plugin's clock

    def note(self, sentence: str) -> None:
        """Something beside the answer: on standard error, so that a pipe does not get it."""
        sys.stderr.write(f"{line(sentence)}\n")

    def show(self, look: Look) -> int:
        """Show it once, or with --watch whenever it changes."""
        if getattr(self.args, "watch", False):
            return self._watch(look)
        answer, draw = look()
        self._give(answer, draw)
        return 0

    def _give(self, answer: object, draw: Draw) -> None:
        if self.terminal.for_programs:
            self.terminal.give(answer)
        else:
            self.terminal.show(_drawn(draw))

    def _watch(self, look: Look) -> int:
        """Until Ctrl-C. What cannot be had now is said and asked for again; what was refused ends it."""
        if self.terminal.for_programs or not self.terminal.console.is_terminal:
            return self._follow(look)
        picture: RenderableType = Text("")
        while True:
            note = Text("")
            try:
                picture = _drawn(look()[1])
            except TryLater as error:
                note = Text(line(error), "bold red")
            self.terminal.console.clear()
            self.terminal.show(Group(picture, note))
            time.sleep(LOOKS_AGAIN_SECONDS)

    def _follow(self, look: Look) -> int:
        """For a pipe: the whole answer, each time that it is another one."""
        shown = ""
        while True:
            answer, draw = look()
            if (text := written(answer, "json")) != shown:
                shown = text
                self._give(answer, draw)
                self.terminal.flush()
            time.sleep(LOOKS_AGAIN_SECONDS)


def _drawn(draw: Draw) -> RenderableType:
    """The picture; `BadReply` where the answer is not what this version of ours knows."""
    try:
        return draw()
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise BadReply(
            f"the answer cannot be shown ({error!r}): use the plugin of the operator's own version, or -o json"
        ) from error
