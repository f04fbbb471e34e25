"""A stage on which agents have lived for a while, for pages that show it: by real runs, the rest by rows.

`porep` is on target and has a past with everything in it; `careful` waits for people; `growing` has machines on their
way, on a market that is slow; `elsewhere`, in another namespace, does nothing.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from fleetagent.dev.controlplane import ControlPlane
from fleetagent.dev.postgres import EmbeddedPostgres
from fleetagent.dev.rbac import operator_objects
from support.asking import BY_HAND
from support.people import READS, STEERS, a_person
from support.servers import MARKET_KEY, Market, a_market
from support.stage import ACCOUNT, NAME, Stage, a_stage
from support.strangers import Strangers, a_past

CAREFUL, GROWING, ELSEWHERE = "careful", "growing", "elsewhere"
SLOW = 4.0
"""Market seconds per second: a machine takes longer to get ready than a test takes to look."""
WAITS_S = 90.0


@dataclass
class Inhabited:
    """The stage, its second namespace, and people's tokens."""

    stage: Stage
    other: str
    """Another namespace with one agent."""
    admin: str
    """May steer in both namespaces."""
    viewer: str
    """May read in both."""
    neighbour: str
    """May steer in the other one, and sees nothing of the first."""
    stranger: str
    """Is known to the API server and may do nothing."""

    @property
    def base_url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.stage.web_port}"

    def path(self, page: str = "", name: str = NAME, namespace: str | None = None) -> str:
        """A page of an agent; the first one without a name of its own."""
        return f"/agents/{namespace or self.stage.namespace}/{name}{'/' + page if page else ''}"

    def run(self, outcome: str) -> int:
        """A run of the first agent that came to this."""
        return self._number("SELECT run_id AS n FROM runs WHERE outcome = %s AND agent_id = {agent}", outcome)

    def compacted_in(self) -> int:
        """The run with its compaction."""
        return self._number("SELECT run_id AS n FROM compactions WHERE agent_id = {agent}")

    def answered_run(self) -> int:
        """The first run that heard a person, and answered as strangers do."""
        return self._number("SELECT min(run_id) AS n FROM messages WHERE kind = 'feedback' AND agent_id = {agent}")

    def first_session(self) -> int:
        """Its first session, which was reset."""
        return self._number("SELECT min(id) AS n FROM sessions WHERE agent_id = {agent}")

    def _number(self, query: str, *values: str) -> int:
        agent = "(SELECT id FROM agents WHERE namespace = %s AND name = %s)"
        rows = self.stage.rows(query.replace("{agent}", agent), *values, self.stage.namespace, NAME)
        return int(rows[0]["n"])


@contextmanager
def an_empty_stage(
    cluster: ControlPlane, postgres: EmbeddedPostgres, template: str, folder: Path
) -> Iterator[tuple[Stage, str]]:
    """A stage for many tests, and a second namespace that its operator watches, too."""
    first, other, database = (f"{what}-{secrets.token_hex(4)}" for what in ("team-a", "team-b", "page"))
    for namespace in (first, other):
        cluster.kubectl("create", "namespace", namespace)
    url = postgres.create_database(database.replace("-", "_"), template=template)
    try:
        with a_stage(cluster, first, url, folder) as stage:
            rights = operator_objects(stage.home, ACCOUNT, (first, other))
            cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
            key = f"--from-literal=api-key={MARKET_KEY}"
            cluster.kubectl("-n", other, "create", "secret", "generic", "vast", key)
            stage.settings["namespaces"] = f"{first},{other}"
            yield stage, other
    finally:
        _without_finalizers(cluster, other)
        for namespace in (first, other):
            cluster.kubectl("delete", "namespace", namespace, "--wait=false")
        postgres.drop_database(database.replace("-", "_"))


def with_people(stage: Stage, other: str) -> Inhabited:
    """Everybody gets a token."""
    both = (stage.namespace, other)

    def person(name: str, verbs: tuple[str, ...], namespaces: tuple[str, ...]) -> str:
        return a_person(stage.cluster, stage.home, name, verbs=verbs, namespaces=namespaces)

    return Inhabited(
        stage,
        other,
        admin=person("admin", STEERS, both),
        viewer=person("viewer", READS, both),
        neighbour=person("neighbour", STEERS, (other,)),
        stranger=person("stranger", (), ()),
    )


@contextmanager
def an_inhabited_stage(
    cluster: ControlPlane, postgres: EmbeddedPostgres, template: str, folder: Path, strangers: Strangers
) -> Iterator[Inhabited]:
    """All agents have lived, and the operator runs."""
    with (
        an_empty_stage(cluster, postgres, template, folder) as (stage, other),
        a_market(time_scale=SLOW) as slow,
    ):
        stage.start_operator()
        _begin(stage, other, slow)
        _live(stage, strangers)
        yield with_people(stage, other)


def _begin(stage: Stage, other: str, slow: Market) -> None:
    """Those that do not disturb each other."""
    stage.apply(spec={"schedule": {"interval": "10s"}})
    stage.apply(
        metadata={"name": GROWING},
        spec={"schedule": BY_HAND, "fleet": {"vast": {"baseURL": slow.base_url}}, "target": {"proofsPerHour": 500}},
    )
    idle = {"schedule": BY_HAND, "target": {"proofsPerHour": 0}}
    stage.apply(metadata={"name": ELSEWHERE, "namespace": other}, spec=idle)


def _live(stage: Stage, strangers: Strangers) -> None:
    """`porep` comes to its target, is reset, compacts, is told hostile words, alerts, wants a wake, is refused."""
    stage.wait_for_target()
    waits = {"mode": "Approve", "approvalExpiry": "1h", "schedule": BY_HAND, "budget": {"fleetUsdPerDay": "96.00"}}
    stage.apply(metadata={"name": CAREFUL}, spec=waits)  # not before: both would want the same offers
    skipped = "SELECT 1 FROM runs WHERE outcome = 'Skipped'"
    stage.wait_for(lambda: stage.rows(skipped), "a run that had nothing new", WAITS_S)
    stage.apply(spec={"schedule": BY_HAND, "budget": {"fleetUsdPerDay": "96.00", "modelTokensPerDay": 2_000_000}})
    stage.annotate(reset_requested_at="once")
    stage.wait_for(lambda: stage.status().get("lastHandledReset") == "once", "the reset")
    said(stage, f"[sim] say {strangers.words}")
    make_fat(stage)
    said(stage, "[sim] alert warning the pager test [sim] wake in 5")
    said(stage, f"[sim] alert critical {strangers.words}")
    said(stage, '[sim] call launch_instance {"offer_id": "999999", "reason": "because"}')
    stage.wait_for(lambda: stage.rows("SELECT 1 FROM actions WHERE state = 'refused'"), "a refusal")
    stage.wait_for(lambda: stage.rows("SELECT 1 FROM actions WHERE state = 'waiting'"), f"{CAREFUL} waits")
    stage.wait_for(lambda: stage.rows("SELECT 1 FROM compactions"), "a compaction")
    a_past(stage, strangers)


def said(stage: Stage, words: str) -> None:
    """A person says something, and the run that heard it is reported."""
    heard = "SELECT run_id FROM runs WHERE state = 'finished' AND triggers ? 'Feedback' ORDER BY run_id"
    before = len(stage.rows(heard))
    stage.annotate(message=words)
    stage.wait_for(lambda: len(stage.rows(heard)) > before, f"a run that heard {words[:40]}", WAITS_S)
    run_id = stage.rows(heard)[-1]["run_id"]
    stage.wait_for(lambda: stage.status()["lastRun"]["id"] >= run_id, "its report")


def make_fat(stage: Stage, tokens: int = 38_000, count: int = 6) -> None:
    """Fill `porep`'s conversation as a run of long ago might have, so that the next run compacts it."""
    text = "instance 33014980 proves at 42.5 proofs/h; " * (tokens // count // 19)
    query = """
        INSERT INTO messages (agent_id, session_id, run_id, seq, kind, role, content, tokens)
        SELECT a.id, a.session_id, a.last_run_id, s.last_seq + n,
          CASE n %% 2 WHEN 1 THEN 'observation' ELSE 'reply' END, CASE n %% 2 WHEN 1 THEN 'user' ELSE 'assistant' END,
          %s, %s
        FROM agents a JOIN sessions s ON s.id = a.session_id, generate_series(1, %s) AS n WHERE a.name = %s
        RETURNING seq
    """
    stage.rows(query, text, tokens // count, count, NAME)
    more = "UPDATE sessions s SET last_seq = last_seq + %s FROM agents a WHERE a.session_id = s.id AND a.name = %s"
    stage.rows(f"{more} RETURNING s.id", count, NAME)


def _without_finalizers(cluster: ControlPlane, namespace: str) -> None:
    """The operator has ended by then."""
    patch = '{"metadata":{"finalizers":null}}'
    for name in cluster.kubectl("-n", namespace, "get", "fleetagents", "-o", "name").split():
        cluster.kubectl("-n", namespace, "patch", name, "--type=merge", "-p", patch)
