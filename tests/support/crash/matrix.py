"""Kills a process at each point of a scene, lets another one take over, and compares all books."""

import json
import os
import queue
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psycopg

from fleetagent.dev.postgres import EmbeddedPostgres
from support.asking import spoken
from support.crash.before import Prepared, prepared, rented
from support.crash.books import Books, faults_in
from support.crash.scenes import Scene
from support.servers import Model, a_market, a_model

WORKERS = 3
KILLED = -9
BEFORE_EFFECT, AFTER_EFFECT = 4, 8
"""How many points around a create or a destroy: from its intent to its record."""


@dataclass
class Result:
    """What came of one scene."""

    scene: str
    points: list[str]
    tried: int = 0
    killed: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def row(self) -> str:
        """One line of the summary."""
        kinds = Counter(_kind(point) for point in self.points)
        counts = "  ".join(f"{kind} {kinds[kind]:>3}" for kind in ("write", "commit", "market", "status"))
        ends = f"tried {self.tried:>3}  killed {self.killed:>3}  faults {len(self.faults)}  {self.seconds:5.1f} s"
        return f"{self.scene:<24} points {len(self.points):>3}  {counts}  {ends}"


def _chosen(points: list[str], one_in: int) -> list[int]:
    """One in so many, evenly spread, and each that lies around a create or a destroy: there it is about money."""
    effects = [n for n, point in enumerate(points, 1) if "market PUT" in point or "market DELETE" in point]
    around = {near for n in effects for near in range(n - BEFORE_EFFECT, n + AFTER_EFFECT + 1)}
    spread = set(range(1, len(points) + 1, one_in))
    return sorted((spread | around) & set(range(1, len(points) + 1)))


def _kind(point: str) -> str:
    word = point.split()[1]
    return word if word in {"commit", "market", "status"} else "write"


@dataclass
class Hand:
    """One pair of zygote and model server; a point at a time."""

    process: subprocess.Popen[str]
    model: Model

    @classmethod
    @contextmanager
    def ready(cls) -> Iterator[Self]:
        """It has imported everything."""
        here = Path(__file__).parents[3]
        env = {name: value for name, value in os.environ.items() if not name.startswith("FLEETAGENT_")}
        env["PYTHONPATH"] = f"{here / 'operator'}:{here / 'tests'}"
        argv = [sys.executable, "-m", "support.crash.zygote"]
        with (
            a_model() as model,
            subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        ):
            try:
                hand = cls(process, model)
                assert hand._line() == "ready"
                yield hand
            finally:
                process.kill()

    def do(self, what: str, **job: Any) -> int:
        """The exit code of the child that did it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": what, "model": self.model.url, **job}) + "\n")
        self.process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@dataclass
class Matrix:
    """All scenes on one Postgres server."""

    postgres: EmbeddedPostgres
    migrated: str
    folder: Path
    hands: "queue.Queue[Hand]"

    @classmethod
    @contextmanager
    def open(cls, postgres: EmbeddedPostgres, migrated: str, folder: Path) -> Iterator[Self]:
        """With as many hands as keep two cores busy."""
        with ExitStack() as stack:
            hands: queue.Queue[Hand] = queue.Queue()
            for _ in range(WORKERS):
                hands.put(stack.enter_context(Hand.ready()))
            yield cls(postgres, migrated, folder, hands)

    def play(self, scene: Scene, one_in: int = 1) -> Result:
        """The points of a first pass that is not cut: all, or the chosen ones."""
        begun = time.monotonic()
        world = self._prepare(scene)
        whole = self._at(world, None)
        result = Result(scene.name, whole.passed, faults=[f"uncut: {fault}" for fault in whole.faults])
        with ThreadPoolExecutor(WORKERS) as pool:
            self._take_in(result, pool.map(lambda point: self._at(world, point), _chosen(whole.passed, one_in)))
        result.seconds = time.monotonic() - begun
        return result

    @staticmethod
    def _take_in(result: Result, outcomes: Iterable["Outcome"]) -> None:
        for outcome in outcomes:
            result.tried += 1
            result.killed += outcome.killed
            result.faults += [f"{outcome.name}: {fault}" for fault in outcome.faults]

    def _prepare(self, scene: Scene) -> Prepared:
        """The scene's world, once."""
        template = f"scene_{secrets.token_hex(4)}"
        url = self.postgres.create_database(template, template=self.migrated)
        hand = self.hands.get()
        try:
            with a_market() as market:
                return prepared(scene, template, url, market, hand.model)
        finally:
            self.hands.put(hand)

    def _at(self, world: Prepared, point: int | None) -> "Outcome":
        scene, name = world.scene, f"{world.template}_{point or 'uncut'}"
        folder = self.folder / name
        folder.mkdir()
        url = self.postgres.create_database(name, template=world.template)
        hand = self.hands.get()
        try:
            with a_market() as market:
                assert rented(scene, market) == world.ids
                if scene.rounds is not None and not scene.waits:
                    hand.model.put("script", spoken(scene.rounds(world.ids, world.offers)))
                job = {"scene": scene.name, "database": url, "market": market.base_url, "folder": str(folder)}
                code = hand.do("be_killed", point=point, **job)
                hand.model.put("script", [])
                with psycopg.connect(url, autocommit=True) as connection:  # the lease runs out, in no time
                    connection.execute("UPDATE agents SET lease_until = clock_timestamp() - interval '1 s'")
                after = hand.do("take_over", **job)
                broken = hand.model.get("state")["violations"]
                faults = [f"{broken} requests that a strict server refuses"] if broken else []
                faults += _how_they_ended(folder, code, after)
                if after == 0:
                    faults += faults_in(scene, Books.read(url, market, folder), world.ids)
            return Outcome(folder, point, code == KILLED, faults)
        finally:
            self.hands.put(hand)
            self.postgres.drop_database(name)


@dataclass(frozen=True)
class Outcome:
    """One point: whether the process died there, and what was wrong afterwards."""

    folder: Path
    point: int | None
    killed: bool
    faults: list[str]

    @property
    def name(self) -> str:
        """The point in words."""
        words = self.folder / "last-words"
        return f"point {self.point} ({words.read_text() if words.exists() else 'not reached'})"

    @property
    def passed(self) -> list[str]:
        """All points of a process that was not killed."""
        said = self.folder / "be_killed.json"
        points: list[str] = json.loads(said.read_text())["points"] if said.exists() else []
        return points


def _how_they_ended(folder: Path, killed: int, after: int) -> list[str]:
    faults = []
    if killed not in {KILLED, 0}:
        faults.append(f"the first process ended with {killed}: {_tail(folder / 'be_killed.log')}")
    if after != 0:
        faults.append(f"the second process ended with {after}: {_tail(folder / 'take_over.log')}")
    return faults


def _tail(log: Path) -> str:
    return log.read_text()[-1500:] if log.exists() else ""
