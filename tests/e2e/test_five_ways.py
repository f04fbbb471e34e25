"""One agent's figures on the page, in the status, in /metrics, in `kubectl fleetagent` and in Postgres are the same."""

import time
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from prometheus_client.parser import text_string_to_metric_families

from support.asking import BY_HAND
from support.browser import Look
from support.inhabited import make_fat, said
from support.people import STEERS, a_person
from support.stage import NAME, Stage
from support.terminals import Person, with_token

Figures = Mapping[str, Decimal | None]

AGREE_WITHIN_S = 20.0
IN_STATUS = {
    "target": ("spec", "target", "proofsPerHour"),
    "rate": ("status", "fleet", "proofsPerHour"),
    "projected": ("status", "fleet", "projectedProofsPerHour"),
    "usd per hour": ("status", "fleet", "usdPerHour"),
    "machines": ("status", "fleet", "instances"),
    "usd today": ("status", "spend", "fleetUsdToday"),
    "tokens today": ("status", "spend", "modelTokensToday"),
    "context tokens": ("status", "session", "contextTokens"),
    "estimated tokens": ("status", "session", "estimatedTokens"),
    "open alerts": ("status", "openAlerts"),
    "last run": ("status", "lastRunID"),
}
ON_PAGE = {
    "target": "target",
    "rate": "proofs-per-hour",
    "projected": "projected",
    "usd per hour": "usd-per-hour",
    "machines": "instances",
    "usd today": "usd-today",
    "tokens today": "tokens-today",
    "context tokens": "context-tokens",
    "estimated tokens": "estimated-tokens",
}
IN_METRICS = {
    "target": "fleetagent_target_proofs_per_hour",
    "rate": "fleetagent_proofs_per_hour",
    "projected": "fleetagent_projected_proofs_per_hour",
    "usd per hour": "fleetagent_usd_per_hour",
    "machines": "fleetagent_machines",
    "usd today": "fleetagent_spend_usd_today",
    "tokens today": "fleetagent_model_tokens_today",
    "context tokens": "fleetagent_context_tokens",
    "open alerts": "fleetagent_open_alerts",
    "last run": "fleetagent_last_run_id",
}
IN_POSTGRES = """
    SELECT its.* FROM agents a CROSS JOIN LATERAL (
      WITH live AS (
        SELECT phase, measured_rate, usd_per_hour, billed_until FROM instances
        WHERE agent_id = a.id AND phase NOT IN ('gone', 'failed')
      ), today AS (
        SELECT kind, usd, tokens FROM spend WHERE agent_id = a.id AND day = (now() AT TIME ZONE 'UTC')::date
      )
      SELECT (SELECT coalesce(sum(measured_rate), 0) FROM live WHERE phase = 'proving') AS "rate",
        (SELECT projected_proofs_per_hour FROM samples WHERE agent_id = a.id AND at >= (
          SELECT max(started_at) FROM runs WHERE agent_id = a.id
        ) ORDER BY at DESC LIMIT 1) AS "projected",
        (SELECT coalesce(sum(usd_per_hour), 0) FROM live) AS "usd per hour",
        (SELECT count(*) FROM live) AS "machines",
        (SELECT coalesce(sum(usd), 0) FROM today WHERE kind = 'fleet') AS "usd today",
        (SELECT coalesce(sum(usd_per_hour * extract(epoch FROM now() - billed_until) / 3600), 0) FROM live)
          AS "not booked",
        (SELECT coalesce(sum(tokens), 0) FROM today WHERE kind = 'model') AS "tokens today",
        (SELECT context_tokens FROM sessions WHERE id = a.session_id) AS "context tokens",
        (SELECT estimated_tokens FROM sessions WHERE id = a.session_id) AS "estimated tokens",
        (SELECT count(*) FROM alerts WHERE agent_id = a.id AND state = 'open') AS "open alerts",
        (SELECT max(run_id) FROM runs WHERE agent_id = a.id) AS "last run"
    ) AS its WHERE a.name = %s
"""
ROUNDED = {"rate": 2, "projected": 2, "usd per hour": 4, "usd today": 2}
"""As the status writes them."""


class FiveWays:
    """Whoever wants to know how the agent does."""

    def __init__(self, stage: Stage, look: Look, person: Person) -> None:
        self.stage, self._look, self._person = stage, look, person

    def status(self) -> Figures:
        return _picked(self.stage.resource())

    def plugin(self) -> Figures:
        return _picked(self._person.types("status", NAME, "-o", "json").json)

    def page(self) -> Figures:
        self._look.open(f"/agents/{self.stage.namespace}/{NAME}")
        found = {name: self._look.page.locator(f"#{it}").get_attribute("value") for name, it in ON_PAGE.items()}
        found["last run"] = self._look.page.locator("#last-run").inner_text()
        return {name: _number(name, value) for name, value in found.items()}

    def metrics(self) -> Figures:
        found = dict.fromkeys(IN_METRICS.values(), Decimal(0))
        for family in text_string_to_metric_families(self.stage.metrics()):
            for sample in family.samples:
                if sample.name in found and sample.labels.get("name") == NAME:
                    found[sample.name] += Decimal(str(sample.value))  # of machines, a series for each phase
        return {name: _number(name, found[it]) for name, it in IN_METRICS.items()}

    def postgres(self) -> Figures:
        (row,) = self.stage.rows(IN_POSTGRES, NAME)
        booked, unbooked = Decimal(row["usd today"]), Decimal(row.pop("not booked"))
        told = self.status()["usd today"]
        if told is not None and round(booked, 2) <= told <= round(booked + unbooked, 2):
            row["usd today"] = told  # the status counts what had accrued since the last booking, at its moment
        # The projection is stored with samples alone, of which there is at most one a minute.
        return {name: _number(name, value) for name, value in row.items() if (name, value) != ("projected", None)}

    def disagreements(self) -> list[str]:
        """Every figure that some way tells differently from the status."""
        told = self.status()
        ways: tuple[Callable[[], Figures], ...] = (self.page, self.metrics, self.plugin, self.postgres)
        return [
            f"{name}: {told[name]} in the status, {value} by {way.__name__}"
            for way in ways
            for name, value in way().items()
            if value != told[name]
        ]

    def must_agree(self) -> None:
        """They do once the run's report is written."""
        deadline = time.monotonic() + AGREE_WITHIN_S
        while found := self.disagreements():
            if time.monotonic() > deadline:
                pytest.fail("\n".join(found))
            time.sleep(0.1)


def _picked(resource: Mapping[str, object]) -> Figures:
    found: dict[str, Decimal | None] = {}
    for name, path in IN_STATUS.items():
        value: object = resource
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        found[name] = _number(name, value)
    return found


def _number(name: str, value: object) -> Decimal | None:
    if value is None:
        return None
    places = ROUNDED.get(name, 0)
    return round(Decimal(str(value)), places) + 0


@pytest.fixture
def five(stage: Stage, chromium: Browser, tmp_path: Path) -> Iterator[FiveWays]:
    """A fleet that proves; from then on the figures change by runs alone."""
    stage.start_operator()
    stage.apply()
    stage.wait_for_target()
    stage.wait_for(lambda: stage.status()["fleet"]["onTheWay"] == 0, "all machines prove")
    stage.apply(spec={"schedule": BY_HAND})
    stage.restart_operator(look_seconds="3600")
    stage.market.put("faults", {"worker": {"kind": "silent"}})
    token = a_person(stage.cluster, stage.home, "somebody", verbs=STEERS, namespaces=(stage.namespace,))
    with Look.through(chromium, f"http://127.0.0.1:{stage.web_port}") as look:
        stage.wait_for(lambda: stage.log().count("watching FleetAgents") == 2, "the second operator serves")
        look.sign_in(token)
        yield FiveWays(stage, look, with_token(stage.cluster, token, stage.namespace, tmp_path))


def test_page_status_metrics_plugin_and_postgres_agree_run_after_run(five: FiveWays) -> None:
    stage, seen = five.stage, []

    def after(what: str) -> None:
        five.must_agree()
        seen.append((what, five.status()))

    said(stage, "nothing to do")
    after("a run that held")
    said(stage, "[sim] alert warning the pager test [sim] wake in 30")
    after("an alert and a wake")
    stage.apply(spec={"schedule": BY_HAND, "target": {"proofsPerHour": 400}})
    stage.wait_for(lambda: stage.status()["fleet"]["onTheWay"] > 0, "machines are on their way")
    after("machines on their way")
    alert = stage.rows("SELECT id FROM alerts")[0]["id"]
    stage.annotate(acknowledge=f"alert-{alert}: known")
    stage.wait_for(lambda: stage.status()["openAlerts"] == 0, "the alert is closed")
    after("an acknowledged alert")
    make_fat(stage)
    said(stage, "and now?")
    after("a compaction")
    stage.model.put("faults", {"name": "A16", "times": None})
    said(stage, "are you there?")
    after("a run that failed")

    figures = [dict(told) for _, told in seen]
    assert [told["open alerts"] for told in figures[:4]] == [0, 1, 1, 0], seen
    assert all(told[name] is not None for told in figures for name in told), seen
    assert figures[2]["usd per hour"] > figures[1]["usd per hour"] > 0  # type: ignore[operator]  # none is missing
    assert figures[2]["projected"] > figures[2]["rate"] > 0  # type: ignore[operator]
    runs = [told["last run"] for told in figures]
    assert runs == sorted(set(runs)), "each step was a run"  # type: ignore[type-var]
