"""Which services alerts go to: each opens the one host that is judged for it, and none reads files or runs anything."""

import asyncio
import importlib
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from fleetagent.adapters.notify import ApprisePager
from fleetagent.adapters.notify.pager import MOST_SENDING, _notify
from fleetagent.adapters.notify.services import SERVICES
from fleetagent.adapters.reach import Reach
from fleetagent.domain.notices import Tone, Words
from fleetagent.domain.receivers import Receiver
from fleetagent.errors import BadResource, TryLater

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise's mail

SOON = 5.0
WORDS = Words("a title", "a body", Tone.ALARM)
HEX, UUID = "a1" * 16, "8b799edf-6f98-4d3a-9be7-2862fb4e5752"
EXAMPLES = {
    "json": ("json://own.example/x", "own.example"),
    "jsons": ("jsons://own.example:8443/x", "own.example"),
    "form": ("form://own.example/x", "own.example"),
    "forms": ("forms://own.example/x", "own.example"),
    "apprise": (f"apprise://own.example/{HEX}", "own.example"),
    "apprises": (f"apprises://own.example/{HEX}", "own.example"),
    "mailto": ("mailto://u:p@own.example?smtp=mail.example&to=a@own.example", "mail.example"),
    "mailtos": ("mailtos://u:p@own.example?to=a@own.example", "own.example"),
    "gotify": ("gotify://own.example/abcdefghijklmno", "own.example"),
    "gotifys": ("gotifys://own.example/abcdefghijklmno", "own.example"),
    "ntfy": ("ntfy://own.example/topic", "own.example"),
    "ntfys": ("ntfys://topic", "ntfy.sh"),
    "mmost": ("mmost://own.example/3ccdd113474722377935511fc85d3dd4", "own.example"),
    "mmosts": ("mmosts://own.example/3ccdd113474722377935511fc85d3dd4", "own.example"),
    "rocket": ("rocket://u:p@own.example/room", "own.example"),
    "rockets": (f"rockets://{HEX[:15]}/{HEX}{HEX}@own.example/room", "own.example"),
    "goalert": (f"goalert://own.example/{UUID}", "own.example"),
    "goalerts": (f"goalerts://own.example/{UUID}", "own.example"),
    "workflows": ("workflows://own.example:443/workflow1a/signature/", "own.example"),
    "slack": ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/%23general", "hooks.slack.com"),
    "discord": ("discord://012345678901234567/abcdefghijklmnopqrstuvwxyz0123456789", "discord.com"),
    "tgram": ("tgram://123456789:abcdefg_hijklmnop/12315544/", "api.telegram.org"),
    "webex": (f"webex://{HEX}{HEX}{HEX[:16]}", "api.ciscospark.com"),
    "gchat": ("gchat://workspace/key1/token1", "chat.googleapis.com"),
    "pover": (f"pover://{'u' * 30}@{'a' * 30}", "api.pushover.net"),
    "pagerduty": (f"pagerduty://{HEX}@{HEX}?region=eu", "events.eu.pagerduty.com"),
    "opsgenie": (f"opsgenie://{UUID}?region=eu", "api.eu.opsgenie.com"),
    "splunk": (f"splunk://route@{UUID}", "alert.victorops.com"),
    "ilert": ("ilert://il1abcdef0123456789", "api.ilert.com"),
    "incidentio": ("incidentio://01HABCDEF/token1", "api.incident.io"),
    "signl4": ("signl4://secret1234", "connect.signl4.com"),
    "pagertree": ("pagertree://int_abc123DEF45", "api.pagertree.com"),
    "spike": (f"spike://{HEX}", "api.spike.sh"),
}


class Judge:
    """Lets everything pass, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def check(self, url: str, *, field: str, condition: str) -> None:
        assert (field.partition(",")[0], condition) == ("spec.alerts.notifySecretRef", "AlertsDelivered")
        self.asked.append(url)


def test_every_service_has_an_example() -> None:
    assert EXAMPLES.keys() == SERVICES.keys()


@pytest.mark.parametrize("schema", SERVICES)
async def test_a_service_opens_the_host_that_was_judged_and_no_other(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, host = EXAMPLES[schema]
    judge, opened = Judge(), set[str]()

    def look_up(name: Any, *_: Any, **__: Any) -> Any:
        opened.add(str(name))
        raise socket.gaierror(socket.EAI_NONAME, "not in a test")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    plugin = await ApprisePager(judge)._opened(Receiver(1, url))
    failure = _notify(plugin, WORDS)

    assert [urlsplit(asked).hostname for asked in judge.asked] == [host]
    assert opened == {host}
    assert failure is not None
    assert not any(part in failure for part in url.split("/") if part)


@pytest.mark.parametrize("schema", SERVICES)
def test_a_service_serves_the_schemas_that_it_stands_for(schema: str) -> None:
    service = SERVICES[schema]
    kind = getattr(importlib.import_module(f"apprise.plugins.{service.module}"), service.name)

    known = {*_listed(kind.protocol), *_listed(kind.secure_protocol)}
    assert schema in known


def _listed(named: Any) -> tuple[str, ...]:
    return (named,) if isinstance(named, str) else tuple(named or ())


@pytest.mark.parametrize(
    "url",
    [
        "dbus://",
        "syslog://",
        "gnome://",
        "windows://",
        "macosx://",
        "file:///etc/passwd",
        "https://own.example/x",
        "matrix://u:p@own.example/#room",
        "memory://",
        "no-url-at-all",
        "://own.example",
    ],
)
async def test_what_is_not_on_the_list_is_refused_without_a_word_of_the_url(url: str) -> None:
    with pytest.raises(BadResource) as caught:
        await ApprisePager(Judge()).check(Receiver(7, url))

    assert (caught.value.condition, caught.value.reason) == ("AlertsDelivered", "UnknownService")
    assert "line 7" in str(caught.value)
    assert "example" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?template=/etc/passwd",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?Template=http://169.254.169.254/",
        "mailtos://u:p@own.example?to=a@own.example&pgp=sign&pgpprv=/root/key",
        "mailtos://u:p@own.example?to=a@own.example&wkd=yes",
        "slack://nonsense",
        "json://",
        "pagerduty://short",
        f"opsgenie://{UUID}?region=mars",
        "json://own.example/" + "x" * 3000,
        "mailto://u:p@own.example?smtp=allowed.example/.own.example",
        "mailto://u:p@own.example?smtp=own.example%23@allowed.example",
        "json://[fe80::1%25eth0]/x",
    ],
)
async def test_what_reads_files_and_what_is_not_valid_is_refused_without_a_word_of_the_url(url: str) -> None:
    with pytest.raises(BadResource) as caught:
        await ApprisePager(Judge()).check(Receiver(2, url))

    assert caught.value.reason == "BadReceiver"
    assert not any(secret in str(caught.value) for secret in ("T1JJ", "passwd", "own.example", "nonsense", "mars"))


@pytest.mark.parametrize(
    "url",
    [
        "json://127.0.0.1/x",
        "json://[::1]/x",
        "json://169.254.169.254/latest",
        "json://2130706433/x",
        "mailto://u:p@own.example?smtp=127.0.0.1",
        "ntfy://127.0.0.1/topic",
    ],
)
async def test_loopback_and_link_local_receivers_are_refused(url: str) -> None:
    with pytest.raises(BadResource) as caught:
        await ApprisePager(Reach()).check(Receiver(1, url))

    assert (caught.value.condition, caught.value.reason) == ("AlertsDelivered", "HostNotAllowed")


async def test_a_list_of_allowed_hosts_holds_for_the_hosts_of_services_too() -> None:
    pager = ApprisePager(Reach(["hooks.slack.com"]))

    await pager.check(Receiver(1, EXAMPLES["slack"][0]))
    with pytest.raises(BadResource, match=r"discord\.com.*FLEETAGENT_ALLOWED_HOSTS"):
        await pager.check(Receiver(1, EXAMPLES["discord"][0]))


async def test_patience_and_redirects_are_ours_whatever_the_url_asks_for() -> None:
    url = "json://own.example/x?rto=9999&cto=9999&redirect=yes"

    plugin = await ApprisePager(Judge())._opened(Receiver(1, url))

    assert plugin.request_timeout == (10.0, 10.0)
    assert plugin.redirects is False


async def test_a_plug_in_that_breaks_is_a_receiver_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    from apprise.plugins.custom_json import NotifyJSON  # noqa: PLC0415

    def breaks(*_: Any, **__: Any) -> bool:
        raise KeyError("json://secret")

    monkeypatch.setattr(NotifyJSON, "send", breaks)

    with pytest.raises(TryLater) as caught:
        await ApprisePager(Judge()).send(Receiver(1, "json://own.example/x"), WORDS)
    assert str(caught.value) == "line 1 (json://) did not take it: its plug-in failed (KeyError)"


async def test_a_plug_in_that_breaks_over_a_line_makes_it_a_bad_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from apprise.plugins.custom_json import NotifyJSON  # noqa: PLC0415

    def breaks(_: str) -> Any:
        raise KeyError("json://secret")

    monkeypatch.setattr(NotifyJSON, "parse_url", breaks)

    with pytest.raises(BadResource, match=r"line 1 \(json://\) is no valid URL") as caught:
        await ApprisePager(Judge()).check(Receiver(1, "json://own.example/x"))
    assert "secret" not in str(caught.value)


async def test_a_receiver_that_hangs_is_left_alone_by_all_who_have_waited_to_call_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from apprise.plugins.custom_json import NotifyJSON  # noqa: PLC0415

    called, over = list[int](), threading.Event()

    def hangs(*_: Any, **__: Any) -> bool:
        called.append(1)
        return over.wait(SOON)

    monkeypatch.setattr(NotifyJSON, "send", hangs)
    pager, one = ApprisePager(Judge(), patience_seconds=0.05), Receiver(1, "json://own.example/x")
    sent = await asyncio.gather(*(pager.send(one, WORDS) for _ in range(3 * MOST_SENDING)), return_exceptions=True)
    assert all(isinstance(error, TryLater) for error in sent)
    assert len(called) == len(pager._hanging) == MOST_SENDING
    over.set()
