"""The demo in a terminal: the view, drawn over itself."""

from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta

from rich.console import Console
from rich.live import Live

from fleetagent.dev.facts import Facts
from fleetagent.dev.view import Shown, view

NOTES_KEPT = 2


class Screen:
    """Leaves the last picture standing at the end, so that it can be read."""

    def __init__(self, console: Console, shown: Shown) -> None:
        self._console = console
        self._shown = shown
        self._notes: deque[str] = deque(maxlen=NOTES_KEPT)
        self._live = Live(console=console, auto_refresh=False)

    def show(self, facts: Facts, left: timedelta | None) -> None:
        """Draw these facts; `left` is the time until the end, if there is one."""
        self._live.start()
        shown = replace(self._shown, left=left, notes=tuple(self._notes))
        self._live.update(view(facts, shown, height=self._console.height), refresh=True)

    def note(self, text: str, at: datetime) -> None:
        """Keep a line on what has happened to the operator."""
        self._notes.append(f"{at:%H:%M:%S} {text}")

    def close(self) -> None:
        """Give the terminal back."""
        self._live.stop()
