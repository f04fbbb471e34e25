"""Which services alerts may go to, and which URLs each of them opens.

Whoever may write a Secret says what the operator opens, so only these are served: they make HTTP or SMTP calls to a
host that is known beforehand. What runs programs, talks to this machine (dbus, syslog, desktops) or asks a server where
to go next is not among them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

READS_FILES = frozenset({"template", "pgp", "pgppub", "pgpprv", "wkd"})
"""Parameters by which apprise reads a file of ours, or another URL."""

_HOST = re.compile(r"[\w.-]+|\[?[0-9A-Fa-f:.]+\]?")

Opens = Callable[[Any], str]
"""The URL that apprise's object will open, whose host is judged before: asked of it, not read from the URL again."""


def _own_host(plugin: Any) -> str:
    return _url("https" if plugin.secure else "http", plugin.host, plugin.port)


def _ntfy(plugin: Any) -> str:
    return "https://ntfy.sh" if plugin.mode == "cloud" else _own_host(plugin)


def _smtp(plugin: Any) -> str:
    return _url("smtp", plugin.smtp_host or plugin.host, plugin.port or 25)


def _slack(plugin: Any) -> str:
    return {"bot": "https://slack.com", "gov-hook": "https://hooks.slack-gov.com"}.get(
        plugin.mode, "https://hooks.slack.com"
    )


def _webex(plugin: Any) -> str:
    return "https://webexapis.com" if plugin.mode == "bot" else "https://api.ciscospark.com"


def _at(url: str, *, in_europe: str | None = None) -> Opens:
    """The one URL of a service that is nobody's own, or its other one."""
    if in_europe is None:
        return lambda _: url
    return lambda plugin: in_europe if plugin.region_name == "eu" else url


def _url(scheme: str, host: str, port: int | None) -> str:
    """`ValueError` for a host that whoever judges the URL would not read as apprise does: of `a/b` it would see `a`."""
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is no host")
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{scheme}://{shown}:{port}" if port else f"{scheme}://{shown}"


@dataclass(frozen=True, slots=True)
class Service:
    """A class of apprise, and what it opens."""

    module: str
    name: str
    opens: Opens = _own_host


_JSON, _FORM = Service("custom_json", "NotifyJSON"), Service("custom_form", "NotifyForm")
_APPRISE = Service("apprise_api", "NotifyAppriseAPI")
_GOALERT = Service("goalert", "NotifyGoAlert")
_GOTIFY = Service("gotify", "NotifyGotify")
_MAIL = Service("email.base", "NotifyEmail", _smtp)
_MATTERMOST = Service("mattermost", "NotifyMattermost")
_NTFY = Service("ntfy", "NotifyNtfy", _ntfy)
_ROCKET = Service("rocketchat", "NotifyRocketChat")

SERVICES: Mapping[str, Service] = {
    "json": _JSON,
    "jsons": _JSON,
    "form": _FORM,
    "forms": _FORM,
    "apprise": _APPRISE,
    "apprises": _APPRISE,
    "mailto": _MAIL,
    "mailtos": _MAIL,
    "gotify": _GOTIFY,
    "gotifys": _GOTIFY,
    "ntfy": _NTFY,
    "ntfys": _NTFY,
    "mmost": _MATTERMOST,
    "mmosts": _MATTERMOST,
    "rocket": _ROCKET,
    "rockets": _ROCKET,
    "goalert": _GOALERT,
    "goalerts": _GOALERT,
    "workflows": Service("workflows", "NotifyWorkflows"),
    "slack": Service("slack", "NotifySlack", _slack),
    "discord": Service("discord", "NotifyDiscord", _at("https://discord.com")),
    "tgram": Service("telegram", "NotifyTelegram", _at("https://api.telegram.org")),
    "webex": Service("webexteams", "NotifyWebexTeams", _webex),
    "gchat": Service("google_chat", "NotifyGoogleChat", _at("https://chat.googleapis.com")),
    "pover": Service("pushover", "NotifyPushover", _at("https://api.pushover.net")),
    "pagerduty": Service(
        "pagerduty",
        "NotifyPagerDuty",
        _at("https://events.pagerduty.com", in_europe="https://events.eu.pagerduty.com"),
    ),
    "opsgenie": Service(
        "opsgenie", "NotifyOpsgenie", _at("https://api.opsgenie.com", in_europe="https://api.eu.opsgenie.com")
    ),
    "splunk": Service("splunk", "NotifySplunk", _at("https://alert.victorops.com")),
    "ilert": Service("ilert", "NotifyILert", _at("https://api.ilert.com")),
    "incidentio": Service("incidentio", "NotifyIncidentIO", _at("https://api.incident.io")),
    "signl4": Service("signl4", "NotifySIGNL4", _at("https://connect.signl4.com")),
    "pagertree": Service("pagertree", "NotifyPagerTree", _at("https://api.pagertree.com")),
    "spike": Service("spike", "NotifySpike", _at("https://api.spike.sh")),
}
