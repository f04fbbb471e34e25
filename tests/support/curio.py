"""A Curio database: its tables on a real Postgres, as far as we read them, and rows that a test spells out."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from fleetagent.dev.postgres import EmbeddedPostgres

SCHEMA = """
CREATE SCHEMA curio;
SET search_path = curio;
CREATE TABLE harmony_task (
    id serial PRIMARY KEY,
    initiated_by integer,
    update_time timestamptz NOT NULL DEFAULT now(),
    posted_time timestamptz NOT NULL DEFAULT now() - interval '1 day',
    owner_id integer,
    added_by integer NOT NULL DEFAULT 1,
    previous_task integer,
    name varchar(16) NOT NULL,
    retries integer NOT NULL DEFAULT 0
);
CREATE TABLE harmony_task_history (
    id serial PRIMARY KEY,
    task_id integer NOT NULL,
    name varchar(16) NOT NULL,
    posted timestamptz NOT NULL,
    work_start timestamptz NOT NULL DEFAULT now() - interval '1 minute',
    work_end timestamptz NOT NULL DEFAULT now(),
    result boolean NOT NULL DEFAULT true,
    err varchar,
    completed_by_host_and_port varchar(300) NOT NULL DEFAULT '10.0.0.1:12300'
);
CREATE INDEX harmony_task_history_work_index ON harmony_task_history (work_end DESC, name, task_id);
CREATE TABLE sectors_sdr_pipeline (
    sp_id bigint NOT NULL DEFAULT 1000,
    sector_number bigserial,
    seed_epoch bigint,
    after_precommit_msg_success boolean NOT NULL DEFAULT false,
    task_id_porep bigint,
    after_porep boolean NOT NULL DEFAULT false,
    failed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (sp_id, sector_number)
);
CREATE TABLE sectors_snap_pipeline (
    sp_id bigint NOT NULL DEFAULT 1000,
    sector_number bigserial,
    after_encode boolean NOT NULL DEFAULT false,
    task_id_prove bigint,
    after_prove boolean NOT NULL DEFAULT false,
    failed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (sp_id, sector_number)
);
CREATE TABLE proofshare_queue (
    service_id bigserial,
    obtained_at timestamptz NOT NULL DEFAULT now(),
    request_cid text,
    compute_task_id bigint,
    compute_done boolean NOT NULL DEFAULT false,
    submit_done boolean NOT NULL DEFAULT false,
    was_pow boolean NOT NULL DEFAULT false,
    PRIMARY KEY (service_id, obtained_at)
);
CREATE TABLE proofshare_meta (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    enabled boolean NOT NULL DEFAULT false,
    wallet text,
    pprice text NOT NULL DEFAULT '0',
    request_task_id bigint
);
"""
MACHINES = """
CREATE TABLE curio.harmony_machines (
    id serial PRIMARY KEY,
    last_contact timestamptz NOT NULL DEFAULT now(),
    host_and_port varchar(300) NOT NULL DEFAULT '10.0.0.1:12300'
);
"""
PASSWORD = "pa55word-of-the-reader"


class CurioDatabase:
    """One database of Curio's, with a user `reader` who may read it and nothing else."""

    def __init__(self, server: EmbeddedPostgres, name: str, reader: str) -> None:
        self._url = server.url_of(name)
        self.name = name
        self.reader = reader
        self.address = self._url.partition("@")[2].partition("/")[0]

    @property
    def dsn(self) -> str:
        """What the Secret would hold."""
        return f"postgresql://{self.reader}:{PASSWORD}@{self.address}/{self.name}"

    def do(self, statement: str, *values: Any) -> None:
        """As Curio itself would."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement.encode(), values or None)

    def add(self, table: str, *rows: dict[str, Any]) -> None:
        """Rows; what a row does not say has its default."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            for row in rows:
                names = sql.SQL(", ").join(map(sql.Identifier, row))
                places = sql.SQL(", ").join(sql.Placeholder() * len(row))
                into = sql.Identifier("curio", table)
                connection.execute(
                    sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(into, names, places), list(row.values())
                )

    def connections_of_the_reader(self) -> int:
        """How many are open now."""
        with psycopg.connect(self._url) as connection:
            found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", [self.reader])
            (count,) = found.fetchone() or (0,)
            return int(count)

    def open(self) -> psycopg.Connection[Any]:
        """A connection of Curio's own."""
        return psycopg.connect(self._url)


@contextmanager
def a_curio_database(server: EmbeddedPostgres) -> Iterator[CurioDatabase]:
    """All tables, all empty; the reader may read them."""
    name = reader = f"curio_{secrets.token_hex(5)}"
    server.create_database(name)
    curio = CurioDatabase(server, name, reader)
    curio.do(SCHEMA)
    curio.do(f"CREATE ROLE {reader} LOGIN PASSWORD '{PASSWORD}'")
    curio.do(f"GRANT USAGE ON SCHEMA curio TO {reader}")
    curio.do(f"GRANT SELECT ON ALL TABLES IN SCHEMA curio TO {reader}")
    try:
        yield curio
    finally:
        server.drop_database(name)
