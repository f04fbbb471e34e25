"""One pool of connections, safe behind pgbouncer in transaction mode."""

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from fleetagent.errors import CannotStart

STATEMENT_TIMEOUT_MS = 15_000


def sync_url(database_url: str) -> URL:
    """What SQLAlchemy needs, from a URL as libpq takes it; `CannotStart` says what is wrong with it."""
    try:
        url = make_url(database_url)
    except sa.exc.ArgumentError:
        raise CannotStart(
            "FLEETAGENT_DATABASE_URL is not a URL; it should look like postgresql://user:password@host:5432/fleetagent"
        ) from None  # the original message repeats the URL, password and all
    if url.get_backend_name() not in {"postgresql", "postgres"}:
        raise CannotStart(f"FLEETAGENT_DATABASE_URL must start with postgresql://, not {url.get_backend_name()}://")
    return url.set(drivername="postgresql+psycopg")


def open_engine(database_url: str, pool_size: int = 10) -> AsyncEngine:
    """A pool whose connections are checked before use and never hold a prepared statement."""
    return create_async_engine(
        sync_url(database_url),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=10,
        pool_pre_ping=True,
        pool_recycle=1800,
        connect_args={
            "prepare_threshold": None,
            "connect_timeout": 10,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": STATEMENT_TIMEOUT_MS,
            "application_name": "fleetagent",
        },
    )
