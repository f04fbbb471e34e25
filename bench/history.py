"""Our store beside its peers as history grows: bytes of a run with its whole audit, and the time to load the prompt."""

import asyncio
import json
import os
import subprocess
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

from bench.copies import RUNS_COPIED, copy_runs
from bench.page import Table, met
from bench.peers.same import OBSERVATION, RESULT, TOOL, VERDICT, Figures, measured
from bench.world import ROOT, say

from fleetagent.adapters.postgres.migrate import migrate_to_head
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.domain.conversation.counts import Counts
from fleetagent.domain.conversation.messages import Kind, Message, ToolCall
from fleetagent.domain.conversation.window import Anchor, Calibration
from fleetagent.domain.records import Lease, Run, Spent
from fleetagent.domain.schedule import Trigger
from support.rehearsal import COUNT
from support.stores import Process, a_process

GOAL_BYTES, GOAL_LOAD_MS = 2_500, 2.0
MARKS: Final = (100, 1_000, 10_000, 100_000)
FILLED_AFTER: Final = 1_000
LANGGRAPH_MARKS: Final = (100, 1_000)
PEERS: Final = ROOT / "bench" / "peers"
ENVIRONMENT: Final = ROOT / ".fleetagent" / "peers"

RUNS_BETWEEN_COMPACTIONS = 50
RUNS_KEPT = 30
"""With those between two compactions they nearly fill what a budget of 30,000 tokens leaves to history."""

WORDS: Final = f"""\
A run is an observation, a call, its result of 200 characters and a verdict, the same texts for every side; ours adds \
the rest of the audit: the run's row, its trigger, two counts, two bookings, compactions. Bytes are the growth of the \
whole database since run 10; VACUUM comes when autovacuum would, for all sides at the same runs. Load is the median of \
20: for the peers the whole history, for us the session and its messages in the prompt. Where no run is quiet, \
{RUNS_BETWEEN_COMPACTIONS + RUNS_KEPT} runs fill the prompt before each compaction.

Runs after {FILLED_AFTER:,} are filled in: ours are copies, row by row, of runs that were stored one by one, but for \
the newest {RUNS_COPIED}, and so have no dead rows between them; the SDK's are added without reading first. LangGraph \
ends at run {LANGGRAPH_MARKS[-1]:,}: what it stores grows with the square of the runs, and ten times as many would \
take about 40 GB. Postgres runs without fsync, for all sides."""


@dataclass
class Ours:
    """The store calls of a run with two requests, in the order in which a run makes them."""

    process: Process
    lease: Lease
    quiet: bool
    """Whether runs leave the prompt at their end; else they stay until a compaction."""

    at: datetime = datetime(2026, 3, 17, 12, 43, tzinfo=UTC)
    tokens: int = 2_000

    async def run(self, n: int) -> None:
        """Claim, write down and count as the loop does, conclude."""
        process, agent_id = self.process, self.lease.agent_id
        self.at += timedelta(minutes=5)
        await process.runs.persist(agent_id, Trigger.SCHEDULE, f"{self.at:%Y-%m-%dT%H:%M:%SZ}")
        run = await process.runs.claim(self.lease, self.at)
        await self._compact(run)
        await self._say(run, Kind.OBSERVATION, OBSERVATION.format(n=n))
        await self._asked(run)
        call = ToolCall(f"r{run.run_id}_1_0", TOOL, "{}")
        await process.conversation.append(
            run, [Message(run.run_id, Kind.REPLY, "assistant", "", (call,), tokens=COUNT(call.name))]
        )
        result = Message(run.run_id, Kind.TOOL_RESULT, "tool", RESULT, tool_call_id=call.id, tokens=COUNT(RESULT))
        await process.conversation.append(run, [result])
        await self._asked(run)
        await self._say(run, Kind.REPLY, VERDICT, role="assistant")
        held = {"action": False, "state_changed": False}
        spent = {"model_calls": 2, "tokens_in": 2 * self.tokens, "tokens_out": 80, "tokens_cached": self.tokens}
        await process.conclude(
            run,
            summary=VERDICT.partition("{")[0].strip(),
            quiet=self.quiet,
            verdict=held,
            verdict_said=held,
            fingerprint="f" * 64 if self.quiet else None,
            next_prompt_tokens=self.tokens,
            **spent,
        )
        await process.agents.schedule(self.lease, self.at + timedelta(minutes=5), "s" * 64)

    async def load(self) -> None:
        """The session and its messages in the prompt: all that a prompt is made of."""
        record = await self.process.agent()
        await self.process.conversation.in_prompt(record.session.id)

    async def fill(self, first: int, last: int) -> None:
        """Copies of runs that were stored one by one and have left the prompt; the newest again one by one."""
        copied_to = await copy_runs(self.process.database, first, last - RUNS_COPIED)
        for n in range(copied_to + 1, last + 1):
            await self.run(n)

    async def _say(self, run: Run, kind: Kind, words: str, role: str = "user") -> None:
        message = Message(run.run_id, kind, role, words, tokens=COUNT(words))
        await self.process.conversation.append(run, [message])

    async def _asked(self, run: Run) -> None:
        await self.process.conversation.book(run, Spent(1, self.tokens, 40, self.tokens // 2, Decimal("0.000321")))
        anchors = (Anchor(self.tokens - 300, self.tokens - 310), Anchor(self.tokens, self.tokens - 7))
        counts = Counts("http://llm/v1 qwen", "cl100k", run.run_id, anchors, anchors[-1])
        await self.process.conversation.count(
            run, reported=self.tokens, estimated=self.tokens - 7, counts=counts, calibration=Calibration(1.07, 9)
        )

    async def _compact(self, run: Run) -> None:
        if self.quiet or run.run_id % RUNS_BETWEEN_COMPACTIONS != 1:
            return
        shown = await self.process.conversation.in_prompt(run.session_id)
        leaving = [m for m in shown if m.run_id < run.run_id - RUNS_KEPT]
        await self.process.conversation.compact(
            run,
            method="Summary",
            because=None,
            masked_before_run=run.run_id - 2,
            runs_left=sorted({m.run_id for m in leaving}),
            leaving_seqs=[m.seq for m in leaving],
            summary="Held. " * 300,
            tokens_before=20_000,
            tokens_after=9_000,
        )


def measure() -> Table:
    """Ours twice, then the peers, each in a database of its own on one server."""
    rows: list[list[str]] = []
    with EmbeddedPostgres.start() as postgres:
        for name, quiet in (
            ("ours, every run quiet, as this one is", True),
            ("ours, no run quiet: a full prompt", False),
        ):
            say(f"history: {name}")
            url = postgres.create_database(f"ours_{quiet}".lower())
            migrate_to_head(url)
            rows += [_row(name, f, ours=True) for f in asyncio.run(_ours(url, quiet=quiet))]
        python = _environment()
        for name, peer, marks in (
            ("LangGraph, AsyncPostgresSaver", "langgraph", LANGGRAPH_MARKS),
            ("OpenAI Agents SDK, SQLAlchemySession", "agents-sdk", MARKS),
        ):
            say(f"history: {name}")
            url = postgres.create_database(peer.replace("-", "_"))
            rows += [_row(name, f, ours=False) for f in _peer(python, peer, url, marks)]
    return Table(
        columns=["", "at run", "bytes per run", "load", "a run's store calls", "goal", "met"],
        rows=rows,
        words=WORDS,
    )


def _row(name: str, figures: Figures, *, ours: bool) -> list[str]:
    good = figures.bytes_per_run <= GOAL_BYTES and figures.load_ms <= GOAL_LOAD_MS
    goal = [f"≤ {GOAL_BYTES:,} bytes, ≤ {GOAL_LOAD_MS:g} ms", met(good)] if ours else ["", ""]
    run = f"{figures.run_ms:.1f} ms" if figures.run_ms is not None else "filled in"
    return [name, f"{figures.at_run:,}", f"{figures.bytes_per_run:,.0f}", f"{figures.load_ms:.1f} ms", run, *goal]


async def _ours(url: str, *, quiet: bool) -> list[Figures]:
    async with a_process(url, lease=timedelta(days=1)) as process:
        ours = Ours(process, await process.lease(), quiet)
        return [figures async for figures in measured(ours, url, MARKS, FILLED_AFTER)]


def _peer(python: Path, peer: str, url: str, marks: Sequence[int]) -> list[Figures]:
    numbers = [str(mark) for mark in marks]
    command = [
        str(python),
        "-m",
        "bench.peers.measure",
        peer,
        *numbers,
        f"--url={url}",
        f"--filled-after={FILLED_AFTER}",
    ]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [Figures(**json.loads(line)) for line in printed.splitlines()]


def _environment() -> Path:
    """The Python of the peers' own environment, made anew when their requirements have changed."""
    requirements, python = PEERS / "requirements.txt", ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "requirements.txt"
    if not stamp.exists() or stamp.read_bytes() != requirements.read_bytes():
        say("history: installing the peers into an environment of their own, once: about a minute")
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*install, "-r", str(requirements)], check=True)
        stamp.write_bytes(requirements.read_bytes())
    return python
