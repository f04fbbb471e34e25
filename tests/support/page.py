"""The page behind its door, with made-up callers and a made-up past."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx

from fleetagent.domain.records import AgentKey
from fleetagent.domain.views import ActionView, AgentRow, AlertView, RunRow, SampleView, SessionView, SpendView
from fleetagent.entrypoints.web import page
from fleetagent.entrypoints.web.app import Pages, visitors, web_app
from fleetagent.entrypoints.web.verbs import Steering
from support.door import ADMIN, BEGAN, LOOPBACK, MadeUpCallers
from support.made_up_past import MadeUpPast
from support.manifests import Json, a_manifest, merged

KEY = AgentKey("ours", "porep")


def stored(key: AgentKey = KEY, **changes: Any) -> Json:
    """The resource as the API server has it, with a status that says that all is well."""
    at = f"{BEGAN:%Y-%m-%dT%H:%M:%SZ}"
    good = {
        kind: ("True", reason, message)
        for kind, reason, message in (
            ("Ready", "Running", "runs as scheduled"),
            ("OnTarget", "Reached", "projected 485 of 500 proofs/h, 410 measured"),
            ("FleetKnown", "Listed", "11 instances, ledger and market agree"),
            ("WithinBudget", "Affordable", "3.42 of 4.00 USD per hour, 51.20 USD today"),
        )
    }
    conditions = [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}
        for kind, (status, reason, message) in good.items()
    ]
    status = {
        "observedGeneration": 1,
        "lastRunID": 412,
        "session": {"id": 4, "messages": 31, "contextTokens": 8123, "estimatedTokens": 8150, "nextPromptTokens": 8300},
        "lastRun": {"id": 412, "triggers": ["Schedule"], "startedAt": at, "finishedAt": at, "outcome": "Acted"},
        "nextRunAt": f"{BEGAN + timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}",
        "fleet": {
            "instances": 11,
            "proving": 9,
            "onTheWay": 2,
            "proofsPerHour": 410,
            "projectedProofsPerHour": 485,
            "usdPerHour": "3.4213",
            "observedAt": at,
        },
        "spend": {"fleetUsdToday": "51.20", "modelTokensToday": 120345},
        "openAlerts": 0,
        "conditions": conditions,
    }
    meta = {"uid": f"uid-of-{key}", "generation": 1, "resourceVersion": "1"}
    body = a_manifest(namespace=key.namespace, name=key.name, metadata=meta, status=status)
    return merged(body, changes)


def a_row(key: AgentKey = KEY, **changes: Any) -> AgentRow:
    """What the database knows of it."""
    usual = AgentRow(
        namespace=key.namespace,
        name=key.name,
        uid=f"uid-of-{key}",
        last_run_id=412,
        open_alerts=0,
        waiting_actions=0,
        pending_wakes=0,
        session=SessionView(id=4, epoch=4, started_at=BEGAN, messages=31, messages_in_prompt=31, compactions=0),
        spend_today=SpendView(
            day=BEGAN.date(), fleet_usd=Decimal("51.2"), model_usd=Decimal("0.0481"), model_tokens=120345
        ),
    )
    return usual.model_copy(update=changes)


def a_run(run_id: int = 412, **changes: Any) -> RunRow:
    """A run that held."""
    usual = RunRow(
        run_id=run_id,
        session_id=4,
        state="finished",
        triggers=("Schedule",),
        started_at=BEGAN - timedelta(minutes=5),
        finished_at=BEGAN - timedelta(minutes=4),
        outcome="Held",
        summary="on target",
        quiet=True,
        model_calls=2,
        tokens_in=8123,
        tokens_out=220,
        tokens_cached=7000,
        tokens_estimated=False,
        usd=Decimal("0.0021"),
        actions=0,
        refusals=0,
    )
    return usual.model_copy(update=changes)


def an_alert(number: int = 17, **changes: Any) -> AlertView:
    """An open one, of the model."""
    usual = AlertView(
        id=number,
        run_id=411,
        code="Model",
        severity="warning",
        message="two hosts in a row failed their benchmark",
        state="open",
        created_at=BEGAN - timedelta(hours=3),
    )
    return usual.model_copy(update=changes)


def an_action(number: int = 42, **changes: Any) -> ActionView:
    """A launch that was done."""
    usual = ActionView(
        id=number,
        run_id=412,
        kind="launch",
        by="model",
        state="done",
        args={"offer_id": "7001"},
        provider_ref="33014980",
        usd_per_hour=Decimal("0.4635"),
        what="1x RTX 5090",
        created_at=BEGAN - timedelta(minutes=5),
    )
    return usual.model_copy(update=changes)


def a_sample(at: datetime, measured: float = 410.0, **changes: Any) -> SampleView:
    """One look at the fleet."""
    usual = SampleView(
        at=at,
        proving=9,
        on_the_way=2,
        proofs_per_hour=measured,
        projected_proofs_per_hour=measured + 75,
        target_proofs_per_hour=500,
        usd_per_hour=Decimal("3.42"),
    )
    return usual.model_copy(update=changes)


@dataclass
class Premises:
    """The app, who calls, what was, and the clock that it sees."""

    callers: MadeUpCallers = field(default_factory=MadeUpCallers)
    past: MadeUpPast = field(default_factory=lambda: MadeUpPast(known=[a_row()]))
    now: datetime = BEGAN
    rights_seconds: float = 60.0
    without_login: str | None = None

    def __post_init__(self) -> None:
        self.callers.agents.setdefault(KEY, stored())
        self.live = page.Live(self.past, every_seconds=0.01, rights_seconds=self.rights_seconds)
        steer = Steering(lambda: self.now, self.past.heard)
        parts = page.Parts(reading=self.past, live=self.live, now=lambda: self.now, steer=steer)
        self.visitors = visitors(
            self.callers,
            url=None,
            now=lambda: self.now,
            clock=self.seconds,
            without_login=self.without_login,
        )
        self.app = web_app(
            self.visitors,
            metrics=lambda: [b"up 1\n"],
            api=[],
            pages=Pages(page.routes(parts), page.login_page, page.error_page),
            steer=steer,
        )

    def seconds(self) -> float:
        """Since the test began."""
        return (self.now - BEGAN).total_seconds()

    def client(self, token: str = ADMIN, **headers: str) -> httpx.AsyncClient:
        """Somebody who takes pages, with a Bearer token, so that a test need not sign in first."""
        given = {"accept": "text/html", "authorization": f"Bearer {token}", **headers}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=LOOPBACK, headers=given)
