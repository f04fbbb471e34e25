"""The ledger of several agents without a database.

It follows the SQL of the stores statement by statement; a test compares the answers of the same calls on Postgres.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from fleetagent.domain.approval import Wish
from fleetagent.domain.facts import Refusal
from fleetagent.domain.fleet import Instance, Phase
from fleetagent.domain.hosts import failures_left, left_out_for
from fleetagent.domain.money import usd_between
from fleetagent.domain.rates import KIND_LIFE, RATE_LIFE, rate_of_host, rates_of_kinds
from fleetagent.domain.records import EFFECTS, ActionState, Asked, LaunchIntent, Lease, Pulse, Run
from fleetagent.domain.settle import Change, Doomed
from fleetagent.domain.settlement import NEVER_APPEARED
from fleetagent.errors import Denied
from support.hostile.diary import Diary
from support.hostile.rows import Book, Deed, Host, Row

DENIED_FOR = timedelta(minutes=15)
DECIDED_AGAINST = frozenset({ActionState.REJECTED, ActionState.EXPIRED, ActionState.REFUSED})


class Books(Diary):
    """Implements `ports.Ledger` too."""

    async def instances(self, agent_id: int) -> tuple[Instance, ...]:
        return tuple(sorted((r.instance for r in self.of[agent_id].live.values()), key=lambda i: i.number))

    async def pulse(self, agent_id: int, run_id: int, now: datetime) -> Pulse:
        book, midnight = self.of[agent_id], now.replace(hour=0, minute=0, second=0, microsecond=0)
        done = [d for d in book.deeds if d.state in EFFECTS]
        launches = [d for d in done if d.kind == "launch"]
        waiting = tuple(d.waiting() for d in self.waiting_deeds(agent_id, now))
        held = [w.run_id == run_id for w in waiting if w.kind == "launch"]
        unbooked = sum((r.usd(max(r.billed_until, midnight), now) for r in book.live.values()), Decimal(0))
        rates = {
            key: rate_of_host(h.rates, key[2])
            for key, h in book.hosts.items()
            if h.measured_at is not None and h.measured_at > now - RATE_LIFE
        }
        known = [(key, book.hosts[key].cpu_ram_gb, rate) for key, rate in rates.items() if rate is not None]
        return Pulse(
            launches_this_run=sum(d.run_id == run_id for d in launches) + sum(held),
            stops_this_run=sum(d.run_id == run_id and d.kind == "stop" for d in done)
            + sum(w.run_id == run_id for w in waiting if w.kind == "stop"),
            launches_last_hour=sum(d.at > now - timedelta(hours=1) for d in launches) + len(held),
            usd_spent_today=book.fleet_usd[now.astimezone(UTC).date()] + unbooked,
            model_tokens_today=0,
            hosts_excluded=_excluded(book, now),
            offers_denied=frozenset(
                str(d.args["offer_id"])
                for d in book.deeds
                if d.state is ActionState.FAILED
                and (d.error.startswith("OfferGone") or d.error == NEVER_APPEARED)
                and d.at > now - DENIED_FOR
                and "offer_id" in d.args
            ),
            host_rates={key: rate for key, _, rate in known},
            kind_rates=rates_of_kinds(k for k in known if (book.hosts[k[0]].measured_at or now) > now - KIND_LIFE),
            open_alerts=len(book.alerts),
            waiting=waiting,
        )

    async def refuse(self, run: Run, asked: Asked, refusal: Refusal, wish: Wish | None = None) -> None:
        del refusal, wish
        row = {"run_id": run.run_id, "label": None, "at": run.started_at}
        self.new_deed(self.owned(run.lease), asked, state=ActionState.REFUSED, **row)

    async def intend_launch(self, run: Run, intent: LaunchIntent, now: datetime) -> int:
        book = self.owned(run.lease)
        if intent.asked.approved is not None:
            deed = self._taken_up(book.deed(intent.asked.approved), now)
            deed.label = intent.label
        else:
            row = {"run_id": run.run_id, "label": intent.label, "at": now}
            deed = self.new_deed(book, intent.asked, state=ActionState.INTENDED, **row)
        book.machines_counted += 1
        machine = Instance(
            label=intent.label,
            provider_id=None,
            phase=Phase.REQUESTED,
            phase_since=now,
            requested_at=now,
            machine_id=intent.machine_id,
            gpu_name=intent.gpu_name,
            num_gpus=intent.num_gpus,
            cpu_ram_gb=intent.cpu_ram_gb,
            cpu_cores=intent.cpu_cores,
            usd_per_hour=intent.usd_per_hour,
            expected_rate=intent.expected_rate,
            number=book.machines_counted,
        )
        book.live[intent.label] = Row(machine, now, intent.min_rate, deed, intent.worker_token_hash)
        return deed.id

    def _taken_up(self, deed: Deed | None, now: datetime) -> Deed:
        if deed is None or deed.state is not ActionState.WAITING or not deed.approved:
            raise Denied("NotWaiting", "it waits no more")
        deed.state, deed.at = ActionState.INTENDED, now
        return deed

    async def intend_stop(
        self, lease: Lease, run_id: int, instance: Instance, *, intent_key: str, by: str, reason: str, now: datetime
    ) -> int:
        return self._stopping(self.owned(lease), run_id, instance, intent_key, by, reason, now)

    def _stopping(
        self, book: Book, run_id: int, instance: Instance, key: str, by: str, reason: str, now: datetime
    ) -> int:
        args = {"instance_id": instance.instance_id, "reason": reason}
        deed = next((d for d in book.deeds if d.key == key), None)
        if deed is None:
            row = {"run_id": run_id, "label": instance.label, "at": now}
            deed = self.new_deed(book, Asked("stop", key, by, args), state=ActionState.INTENDED, **row)
        elif deed.state is ActionState.WAITING or deed.state in DECIDED_AGAINST:
            self._taken_up(deed, now)
        if (row_now := book.live.get(instance.label)) is not None:
            failure = row_now.instance.failure or (reason if by == "lifecycle" else None)
            book.move(row_now, Phase.STOPPING, now, failure=failure)
        return deed.id

    def _outcome(self, lease: Lease, action_id: int, state: ActionState, error: str, provider_id: str | None) -> None:
        book = self.owned(lease)
        if (deed := book.deed(action_id)) is not None:
            deed.state, deed.error = state, error
        if provider_id is not None and (row := book.row_of(action_id)) is not None:
            row.change(provider_id=provider_id)

    async def launched(self, lease: Lease, action_id: int, provider_id: str) -> None:
        self._outcome(lease, action_id, ActionState.DONE, "", provider_id)

    async def unclear(self, lease: Lease, action_id: int, because: str, provider_id: str | None) -> None:
        self._outcome(lease, action_id, ActionState.UNKNOWN, because, provider_id)

    async def not_launched(self, lease: Lease, action_id: int, because: str, now: datetime) -> None:
        self._outcome(lease, action_id, ActionState.FAILED, because, None)
        book = self.of[lease.agent_id]
        if (row := book.row_of(action_id)) is not None:
            book.move(row, Phase.FAILED, now, failure=because)

    async def stop_asked(self, lease: Lease, label: str, now: datetime) -> None:
        book = self.owned(lease)
        if (row := book.row(label)) is not None:
            row.change(destroy_asked_at=now)
        for deed in book.deeds:
            if deed.label == label and deed.kind == "stop" and deed.state is ActionState.INTENDED:
                deed.state = ActionState.DONE

    async def settle(
        self, lease: Lease, changes: Sequence[Change], now: datetime, doomed: Sequence[Doomed] = ()
    ) -> None:
        book = self.owned(lease)
        for row in book.live.values():
            if row.billed_until < now:
                _book(book, row.instance, row.billed_until, now, 1)
                row.billed_until = now
        for change in changes:
            (self._adopt if change.adopted is not None else self._write)(book, change, now)
            if change.never_appeared:
                _book(book, change.instance, change.instance.requested_at, now, -1)
        for each in doomed:
            machine = each.instance
            if each.host_failed:
                host = book.hosts.setdefault((machine.machine_id, machine.gpu_name, machine.num_gpus), Host())
                host.failures = 1 + failures_left(host.failures, host.failed_at, now)
                host.failed_at, host.excluded_until = now, now + left_out_for(host.failures)
            key = f"{lease.agent_id}:lifecycle:{machine.label}"
            self._stopping(book, 0, machine, key, "lifecycle", each.because, now)

    def _write(self, book: Book, change: Change, now: datetime) -> None:
        new, row = change.instance, book.row(change.instance.label)
        if row is None:
            return
        old = row.instance
        row.change(
            provider_id=new.provider_id or old.provider_id,
            market_status=new.market_status,
            usd_per_hour=new.usd_per_hour,
            absent_count=new.absent_count,
            absent_since=new.absent_since,
            confirmed_gone_at=new.confirmed_gone_at,
            failure=old.failure or new.failure,
            told=new.told,
            phase_since=min(old.phase_since, now),
        )
        ended = new.phase in {Phase.GONE, Phase.FAILED}
        if (ended and old.phase is not new.phase) or (new.phase is Phase.LOADING and old.phase is Phase.REQUESTED):
            book.move(row, new.phase, now)
        if change.never_appeared or (new.phase is Phase.FAILED and new.market_status is None):
            row.settle_launch(ActionState.FAILED, new.failure or "")
        elif new.provider_id is not None and new.absent_count == 0:
            row.settle_launch(ActionState.DONE, "")

    def _adopt(self, book: Book, change: Change, now: datetime) -> None:
        new, rented = change.instance, change.adopted
        assert rented is not None
        book.machines_counted += 1
        row = book.row(new.label)
        if row is None:
            book.live[new.label] = Row(replace(new, number=book.machines_counted), now)
            return
        old = row.instance
        doomed = old.destroy_asked_at is not None or old.phase is Phase.GONE
        proved = old.measured_rate is not None and old.measured_rate > 0 and old.measured_rate >= row.min_rate
        row.billed_until = now
        book.move(
            row,
            Phase.STOPPING if doomed else Phase.PROVING if proved else new.phase,
            now,
            provider_id=new.provider_id,
            market_status=new.market_status,
            usd_per_hour=new.usd_per_hour if rented.usd_per_hour is not None else old.usd_per_hour,
            absent_count=0,
            absent_since=None,
            confirmed_gone_at=None,
            told=new.told,
            failure=old.failure if doomed else None,
        )
        row.settle_launch(ActionState.DONE, "", given_up=True)


def _excluded(book: Book, now: datetime) -> dict[str, datetime]:
    found: dict[str, datetime] = {}
    for (machine_id, _, _), host in book.hosts.items():
        if host.excluded_until is not None and host.excluded_until > now:
            found[machine_id] = max(host.excluded_until, found.get(machine_id, host.excluded_until))
    return found


def _book(book: Book, instance: Instance, since: datetime, now: datetime, sign: int) -> None:
    for moment, usd in usd_between(instance.usd_per_hour, since, now):
        book.fleet_usd[moment.astimezone(UTC).date()] += sign * usd
