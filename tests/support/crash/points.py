"""Where a process may die: before and after each write and commit of the database, call of the market, and report.

Nothing of it stands in the product: it listens to the engine's and the HTTP client's own hooks.
"""

import os
import re
import signal
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

_WRITE = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM) (?!SET\b|OF\b|SKIP\b|NOWAIT\b)(\w+)")


class Points:
    """Counts the points as they are passed, and dies at one of them as a process does that is killed."""

    def __init__(self, die_at: int | None, last_words: Path) -> None:
        self.passed: list[str] = []
        self._die_at = die_at
        self._last_words = last_words
        self._wrote: set[int] = set()
        self._armed = True

    def at(self, name: str) -> None:
        """A point; for one of them this does not return."""
        if not self._armed:
            return
        self.passed.append(name)
        if len(self.passed) == self._die_at:
            self._last_words.write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)

    def disarm(self) -> None:
        """What comes now is the process's own orderly end."""
        self._armed = False

    def watch_market(self, http: httpx.AsyncClient) -> None:
        """Each call, before it leaves and when its answer begins."""

        async def before(request: httpx.Request) -> None:
            self.at(f"before market {request.method} {_path(request)}")

        async def after(response: httpx.Response) -> None:
            self.at(f"after market {response.request.method} {_path(response.request)}")

        http.event_hooks = {"request": [before], "response": [after]}

    def watch_database(self, engine: AsyncEngine) -> None:
        """Each statement that writes, and the commit of each transaction that wrote."""
        sync = engine.sync_engine

        @sa.event.listens_for(sync, "before_cursor_execute")
        def before(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if written := _WRITE.findall(statement):
                self.at(f"before {_words(written)}")

        @sa.event.listens_for(sync, "after_cursor_execute")
        def after(connection: sa.Connection, _cursor: Any, statement: str, *_: Any) -> None:
            if written := _WRITE.findall(statement):
                if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
                    self._wrote.add(id(connection.connection))
                self.at(f"after {_words(written)}")

        commit = sync.dialect.do_commit

        def do_commit(connection: Any) -> None:
            wrote = id(connection) in self._wrote
            if wrote:
                self._wrote.discard(id(connection))
                self.at("before commit")
            commit(connection)
            if wrote:
                self.at("after commit")

        sync.dialect.do_commit = do_commit  # type: ignore[method-assign, assignment]


def _words(written: list[tuple[str, str]]) -> str:
    return " + ".join(f"{verb.split()[0].lower()} {table}" for verb, table in written)


def _path(request: httpx.Request) -> str:
    return re.sub(r"\d{3,}", "…", request.url.path)
