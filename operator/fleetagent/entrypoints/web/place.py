"""Where people reach the page, and which requests come from the page itself."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class Place:
    """`url` is the public base URL, if the installation has one; a loopback name always works besides."""

    url: str | None = None

    def secure(self, request: Request) -> bool:
        """Whether cookies must travel by TLS alone: we never see the TLS, an ingress ends it."""
        return self.url is not None and self.url.startswith("https://") and not on_loopback(request)

    def public(self, request: Request) -> bool:
        """Whether it came by the public name, and so from anywhere. An ingress takes that with any port, and a dot."""
        return self.url is not None and urlsplit(self.url).hostname == (_host(request) or "").removesuffix(".")

    def cookie(self, request: Request) -> str:
        """Its name. By `__Host-` a browser promises that no other host, and no plain HTTP, has set it."""
        return "__Host-fleetagent" if self.secure(request) else "fleetagent"

    def own(self, request: Request) -> bool:
        """Whether a page of ours sent this, as far as the browser tells."""
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return False
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        return origin is None or origin in {f"http://{host}", f"https://{host}", self._origin()}

    def _origin(self) -> str | None:
        if self.url is None:
            return None
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def on_loopback(request: Request) -> bool:
    """Whether the address that the browser shows is this machine's: no stranger's name that leads here."""
    name = _host(request) or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _host(request: Request) -> str | None:
    """The name alone, in small letters."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return None


def local_path(said: str | None) -> str:
    """Where to go after the login: a path of this page, or its beginning. Never another host's."""
    if (
        not said
        or not said.startswith("/")
        or said.startswith(("//", "/login", "/logout"))
        or "\\" in said
        or not all("!" <= char <= "~" for char in said)  # browsers drop tabs and line breaks: "/\t/host" is "//host"
    ):
        return "/"
    return said
