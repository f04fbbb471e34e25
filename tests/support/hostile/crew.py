"""What workers report of themselves, without a database."""

from datetime import datetime

from fleetagent.adapters.postgres.worker_tokens import token_hash
from fleetagent.domain.fleet import Phase
from fleetagent.domain.rates import believable
from fleetagent.domain.workers import hardly_proves, plausible_rate
from support.hostile.books import Books
from support.hostile.rows import Book, Host, Row

KEPT_RATES = 20


class Crew:
    """Follows the SQL of the worker endpoint's store."""

    def __init__(self, books: Books) -> None:
        self._books = books

    async def register(self, token: str, now: datetime) -> None:
        for book, row in self._machine(token):
            if row.instance.phase in {Phase.REQUESTED, Phase.LOADING, Phase.PROVING}:
                restarted = row.instance.phase is Phase.PROVING
                hopeless = hardly_proves(row.timeline, now) if restarted else None
                book.move(row, Phase.REGISTERED, now, **({} if hopeless is None else {"failure": hopeless}))

    async def params_done(self, token: str, now: datetime) -> None:
        for book, row in self._machine(token):
            if row.instance.phase is Phase.REGISTERED:
                book.move(row, Phase.BENCHMARKING, now)

    async def bench_done(self, token: str, rate: float, now: datetime) -> float | None:
        """How many of its proofs per hour are counted from now on; None when it does not prove."""
        for book, row in self._machine(token):
            machine = row.instance
            if machine.failure is None and machine.phase in {Phase.REGISTERED, Phase.BENCHMARKING}:
                kind = machine.gpu_name, machine.num_gpus
                counted = rate
                if believed := believable(rate, machine.num_gpus):
                    counted = min(rate, plausible_rate(machine.num_gpus))
                    host = book.hosts.setdefault((machine.machine_id, *kind), Host())
                    host.rates, host.measured_at = [*host.rates, counted][-KEPT_RATES:], now
                    host.cpu_ram_gb = machine.cpu_ram_gb
                if believed and counted >= row.min_rate:
                    book.move(row, Phase.PROVING, now, measured_rate=counted)
                    return counted
                row.change(measured_rate=counted, failure=f"benchmark of {rate:g} p/h")
        return None

    def _machine(self, token: str) -> list[tuple[Book, Row]]:
        return [
            (book, row)
            for book in self._books.of.values()
            for row in list(book.live.values())
            if row.token_hash == token_hash(token) and row.instance.phase is not Phase.STOPPING
        ]
