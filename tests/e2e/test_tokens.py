"""Tokens and Secrets that are replaced while the operator runs: each client uses the new ones, and nothing restarts."""

from collections.abc import Iterator

import pytest

from fleetagent.dev.postgres import EmbeddedPostgres
from support.curio import a_curio_database
from support.line import Line, a_line
from support.manifests import ABSENT, Json
from support.proxy import Seen
from support.servers import MARKET_KEY, a_model
from support.slips import a_secret
from support.stage import Stage
from support.steering import IDLE, apply_idle

USED_WITHIN_S = 25.0
"""A Secret's value is remembered for 15 s, and an idle agent looks every second."""


@pytest.fixture(params=["in a file of its own", "in the kubeconfig"])
def line(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Line]:
    """An operator that reads its token there, with one idle agent."""
    with a_line(stage, token_in_file=request.param == "in a file of its own") as ready:
        ready.start_operator(silent_seconds="600")
        apply_idle(stage)
        yield ready


def kinds_of_call(stage: Stage) -> dict[str, tuple[str, str]]:
    """What each client of the process sends, by method and the path's end; watches are opened by kopf."""
    return {
        "kopf's watch": ("GET", "/fleetagents"),
        "kopf's patch": ("PATCH", "/fleetagents/porep"),
        "our status": ("PATCH", "/fleetagents/porep/status"),
        "our Events": ("POST", f"/namespaces/{stage.namespace}/events"),
        "our Secrets": ("GET", "/secrets/vast"),
    }


def test_each_client_uses_the_token_that_took_the_old_one_s_place(line: Line) -> None:
    stage, proxy = line.stage, line.proxy
    old = line.token()
    new = line.new_token()
    assert new != old
    proxy.seen.clear()

    with proxy.refusing(401, lambda seen: seen.token == old):
        proxy.end_watches()
        stage.annotate(reset_requested_at="with the new token", requested_at="with the new token")
        served = "with the new token"
        stage.wait_for(lambda: stage.status().get("lastHandledRequest") == served, "the request is served")
        stage.wait_for(lambda: stage.events("SessionReset"), "an Event is written")
        for what, (method, end) in kinds_of_call(stage).items():

            def sent(seen: Seen, method: str = method, end: str = end) -> bool:
                return seen.method == method and seen.path.endswith(end) and seen.token == new

            stage.wait_for(lambda sent=sent: proxy.count(sent), f"{what} with the new token", USED_WITHIN_S)  # type: ignore[misc]

    assert line.ready()[0] == 200
    assert stage.operators[-1].poll() is None
    refused = [seen for seen, status in proxy.seen if status == 401]
    assert 1 <= len(refused) <= 10, "a refusal is the end of the old token"
    assert "Re-authentication" not in stage.log()


def known(stage: Stage) -> list[tuple[str, str]]:
    """What the three Secrets are read for."""
    return [(stage.condition(c).get("status", ""), c) for c in ("FleetKnown", "ModelAvailable", "DemandKnown")]


def all_are(stage: Stage, status: str) -> bool:
    return [s for s, _ in known(stage)] == [status] * 3


def test_secrets_that_are_replaced_are_used_soon_and_without_a_restart(
    stage: Stage, postgres_server: EmbeddedPostgres
) -> None:
    with a_model(api_key="right") as model, a_curio_database(postgres_server) as curio:

        def put(*, right: bool) -> None:
            a_secret(stage, "vast", {"api-key": MARKET_KEY if right else "wrong"})
            a_secret(stage, "llm", {"key": "right" if right else "wrong"})
            a_secret(stage, "curio", {"dsn": curio.dsn if right else curio.dsn.replace("://", "://no")})

        put(right=True)
        spec: Json = {
            **IDLE,
            "schedule": {"interval": "10s", "skipUnchanged": False},
            "model": {"baseURL": model.url, "apiKeySecretRef": {"name": "llm", "key": "key"}},
            "demand": {"static": ABSENT, "curio": {"dsnSecretRef": {"name": "curio", "key": "dsn"}}},
        }
        stage.start_operator()
        stage.apply(spec=spec)
        stage.wait_for(lambda: all_are(stage, "True"), "all are known")

        put(right=False)
        stage.wait_for(lambda: all_are(stage, "False"), "the new values are used, and refused", USED_WITHIN_S + 20)
        put(right=True)
        stage.wait_for(lambda: all_are(stage, "True"), "the right ones are used", USED_WITHIN_S + 20)

    assert stage.operators[-1].poll() is None
    assert len(stage.operators) == 1
