"""Brings a message to a receiver by apprise, whose services block: each call has a thread, the event loop never waits.

Each service's code is loaded when the first agent names it: all of them together take 25 MB.
"""

import asyncio
import concurrent.futures
import importlib
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from fleetagent.adapters.notify.services import READS_FILES, SERVICES, Service
from fleetagent.domain.notices import Tone, Words
from fleetagent.domain.receivers import FIELD, LONGEST_URL, Receiver
from fleetagent.errors import BadResource, TryLater

PATIENCE_SECONDS = 20.0
SOCKET_SECONDS = 10.0
MOST_SENDING = 16
MOST_HANGING = 32
"""Calls that nobody waits for any more. A thread cannot be ended: who feeds it a byte now and then keeps it."""

_STATUS = re.compile(r"\berror=(\d{3})\b")


class Reach(Protocol):
    """Judges hosts: see `adapters.reach`."""

    def check(self, url: str, *, field: str, condition: str) -> Awaitable[None]:
        """See there."""


class ApprisePager:
    """Implements `ports.notices.Pager`."""

    def __init__(self, reach: Reach, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._reach = reach
        self._patience_seconds = patience_seconds
        self._sending = asyncio.Semaphore(MOST_SENDING)
        self._hanging: dict[concurrent.futures.Future[str | None], str] = {}

    async def check(self, receiver: Receiver) -> None:
        """See `ports.notices.Pager.check`."""
        await self._opened(receiver)

    async def send(self, receiver: Receiver, words: Words) -> None:
        """See `ports.notices.Pager.send`."""
        self._refuse_if_hanging(receiver)
        plugin = await self._opened(receiver)
        async with self._sending:
            self._refuse_if_hanging(receiver)  # many agents may have one receiver, and all have waited here
            failure = await self._in_a_thread(receiver, lambda: _notify(plugin, words))
        if failure is not None:
            raise TryLater(f"{receiver.name} did not take it: {failure}")

    async def _opened(self, receiver: Receiver) -> Any:
        """The service's object, the host that it will open judged."""
        service = SERVICES.get(receiver.schema)
        if service is None:
            words = f"{FIELD}: {receiver.name} names no service that is served here: see docs/how-to/alerts.md"
            raise BadResource("AlertsDelivered", "UnknownService", words)
        if len(receiver.url) > LONGEST_URL:
            words = f"{FIELD}: {receiver.name} has more than {LONGEST_URL} characters: correct it"
            raise BadResource("AlertsDelivered", "BadReceiver", words)
        plugin, opens = await asyncio.to_thread(_built, service, receiver)
        await self._reach.check(opens, field=f"{FIELD}, {receiver.name}", condition="AlertsDelivered")
        return plugin

    def _refuse_if_hanging(self, receiver: Receiver) -> None:
        if receiver.mark in self._hanging.values():
            raise TryLater(f"{receiver.name} has not even answered the message before")
        if len(self._hanging) >= MOST_HANGING:
            raise TryLater(f"{receiver.name} was not called: too many receivers keep their callers waiting")

    async def _in_a_thread(self, receiver: Receiver, work: Callable[[], str | None]) -> str | None:
        """In a thread that nobody waits for at the end of the process; an executor's would be waited for."""
        done: concurrent.futures.Future[str | None] = concurrent.futures.Future()
        done.set_running_or_notify_cancel()
        threading.Thread(target=lambda: done.set_result(work()), name="alert", daemon=True).start()
        try:
            async with asyncio.timeout(self._patience_seconds):
                return await asyncio.wrap_future(done)
        except TimeoutError:
            self._hanging[done] = receiver.mark
            done.add_done_callback(self._hanging.pop)
            return f"no answer within {self._patience_seconds:g} s"


def _built(service: Service, receiver: Receiver) -> tuple[Any, str]:
    """Apprise's object for the URL, without redirects, files of ours, or patience beyond ours; and what it opens."""
    from apprise import AppriseAsset  # noqa: PLC0415 - most installations never need it

    wrong = f"{FIELD}: {receiver.name} is no valid URL of its service: correct it, see docs/how-to/alerts.md"
    kind = getattr(importlib.import_module(f"apprise.plugins.{service.module}"), service.name)
    asset = AppriseAsset(storage_mode="memory", app_id="FleetAgent", app_desc="FleetAgent", app_url="")
    asset.http_redirects = asset.pgp_autogen = asset.pem_autogen = False
    _listen()
    plugin, opens, named = None, "", list[str]()
    try:
        if parts := kind.parse_url(receiver.url):
            named = sorted(READS_FILES & {name.lower() for name in parts.get("qsd", {})})
            plugin = None if named else kind(**parts, asset=asset)
            opens = "" if plugin is None else service.opens(plugin)
    except Exception as error:  # whatever a plug-in makes of a line, it is that line's failure
        raise BadResource("AlertsDelivered", "BadReceiver", wrong) from error
    if named:
        wrong = f"{FIELD}: {receiver.name} has the parameter {named[0]}, which reads files: leave it out"
    if plugin is None:
        raise BadResource("AlertsDelivered", "BadReceiver", wrong)
    plugin.redirects = False
    plugin.socket_connect_timeout = plugin.socket_read_timeout = SOCKET_SECONDS
    return plugin, opens


def _notify(plugin: Any, words: Words) -> str | None:
    """Send it, in this thread; what went wrong, without a word of the service's own: it may repeat the URL."""
    from apprise import NotifyFormat, NotifyType  # noqa: PLC0415

    tones = {Tone.CALM: NotifyType.INFO, Tone.GOOD: NotifyType.SUCCESS, Tone.WARNING: NotifyType.WARNING}
    kind = tones.get(words.tone, NotifyType.FAILURE)
    _HEARD.status = None
    try:
        taken = plugin.notify(body=words.body, title=words.title, notify_type=kind, body_format=NotifyFormat.TEXT)
    except Exception as error:  # noqa: BLE001 - whatever a plug-in does wrong is one receiver's failure
        return f"its plug-in failed ({type(error).__name__})"
    if taken:
        return None
    status = getattr(_HEARD, "status", None)
    return f"it answered {status}" if status else "no connection, or no whole answer"


_HEARD = threading.local()


class _Overheard(logging.Handler):
    """Apprise tells a status nowhere but in its log, which is never shown: it names hosts, and parts of URLs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the status of this thread's call."""
        if found := _STATUS.search(record.getMessage()):
            _HEARD.status = found.group(1)


def _listen() -> None:
    logger = logging.getLogger("apprise")
    if logger.propagate:
        logger.propagate = False
        logger.setLevel(logging.WARNING)
        logger.addHandler(_Overheard())
