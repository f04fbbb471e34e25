"""Page and API: their own database connections, Kubernetes in the caller's name, and one door before all of it."""

import contextlib
import time

from starlette.applications import Starlette

from fleetagent.adapters.callers import KubernetesCallers, callers_client
from fleetagent.adapters.postgres.database import Database
from fleetagent.adapters.postgres.engine import open_engine
from fleetagent.adapters.postgres.reading import LONGEST_READ_SECONDS, PostgresReading
from fleetagent.bootstrap.build import Built, utc_now
from fleetagent.bootstrap.kubeapi import Kubernetes
from fleetagent.entrypoints.web import page
from fleetagent.entrypoints.web.api import api_routes
from fleetagent.entrypoints.web.app import Pages, visitors, web_app
from fleetagent.entrypoints.web.verbs import Steering
from fleetagent.settings import Settings

CONNECTIONS = 3
"""Readers wait for each other, and never for a connection that an agent needs."""


def open_web(
    stack: contextlib.AsyncExitStack, settings: Settings, built: Built, kubernetes: Kubernetes
) -> tuple[Starlette, page.Live]:
    """The app, and what is live in it: to be entered once the app is served, so that its streams end first.

    Whether this process works or stands by makes no difference: both read the same, and steering is Kubernetes' part.
    """
    engine = open_engine(settings.database_url.get_secret_value(), CONNECTIONS)
    stack.push_async_callback(engine.dispose)
    configuration = kubernetes.api.configuration
    http = callers_client(configuration)
    stack.push_async_callback(http.aclose)
    callers = KubernetesCallers(http, server_name=configuration.tls_server_name)
    reading = PostgresReading(Database(engine, longest_seconds=LONGEST_READ_SECONDS), cluster=settings.cluster)
    live, steer = page.Live(reading), Steering(utc_now, reading.heard)
    token = settings.web_token
    app = web_app(
        visitors(
            callers,
            url=settings.web_url,
            now=utc_now,
            clock=time.monotonic,
            without_login=None if token is None else token.get_secret_value(),
        ),
        metrics=built.metrics.parts,
        api=api_routes(reading, utc_now),
        pages=Pages(
            page.routes(page.Parts(reading=reading, live=live, now=utc_now, steer=steer)),
            page.login_page,
            page.error_page,
        ),
        steer=steer,
    )
    return app, live
