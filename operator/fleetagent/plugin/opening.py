"""`open`: the page in the browser, signed in, with a token that ends within the hour where that can be had."""

import os
import secrets
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote

from fleetagent.errors import TryLater
from fleetagent.plugin.apiserver import part
from fleetagent.plugin.forward import forwarded_from, port_forward
from fleetagent.plugin.person import Person
from fleetagent.plugin.tokens import short_token
from fleetagent.plugin.web import checked

FETCHED_WITHIN_SECONDS = 120.0
LOOKS_AGAIN_SECONDS = 0.25


def open_page(person: Person) -> int:
    """Until Ctrl-C, where a port-forward is what the page stands on."""
    token = short_token(person)
    path = f"/agents/{part(person.namespace)}/{part(person.args.name)}" if person.args.name else "/"
    server: str | None = person.args.server
    if server is not None:
        _show(person, checked(server), path, token)
        return 0
    with port_forward(person, forwarded_from(person)) as (base, process):
        _show(person, base, path, token)
        person.note(f"{base} is open until Ctrl-C")
        while process.poll() is None:
            time.sleep(LOOKS_AGAIN_SECONDS)
    raise TryLater("the port-forward has ended: the operator was restarted perhaps; open it again")


def _show(person: Person, base: str, path: str, token: str) -> None:
    """The browser is given an address that says nothing: command lines can be read by all who use this machine."""
    target = f"{base}/login?next={quote(path, safe='')}#token={quote(token, safe='')}"
    with _handed_over(target) as door:
        _browse(person, door.url)
        deadline = time.monotonic() + FETCHED_WITHIN_SECONDS
        while not door.used:
            if time.monotonic() > deadline:
                raise TryLater(f"no browser came: open {base}/login yourself, with a token of `kubectl create token`")
            door.handle_request()


def _browse(person: Person, url: str) -> None:
    """Beside us: a browser of the terminal keeps whoever starts it waiting."""

    def browse() -> None:
        if person.args.no_browser or not webbrowser.open(url):
            person.note(f"open this in a browser of this machine, within two minutes: {url}")

    threading.Thread(target=browse, daemon=True).start()


class Door(HTTPServer):
    """Sends the first who knows its path, and is of the same user, to the target; nobody afterwards."""

    timeout = LOOKS_AGAIN_SECONDS

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), Visit)
        self.target = target
        self.path = f"/{secrets.token_urlsafe(24)}"
        self.used = False

    @property
    def url(self) -> str:
        """What the browser opens."""
        return f"http://127.0.0.1:{self.server_port}{self.path}"

    def handle_error(self, *_: object) -> None:
        """Nothing: a browser that opens a connection and goes away is no fault."""


class Visit(BaseHTTPRequestHandler):
    """One request at the door."""

    server: Door
    timeout = 5.0

    def do_GET(self) -> None:
        """To the page, once."""
        door = self.server
        if door.used or not secrets.compare_digest(self.path.encode(), door.path.encode()):
            self.send_error(404)
        elif not is_ours(self.client_address[1], door.server_port):
            self.send_error(403)
        else:
            door.used = True
            self.send_response(303)
            self.send_header("Location", door.target)
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: there is a secret in the path."""


@contextmanager
def _handed_over(target: str) -> Iterator[Door]:
    try:
        door = Door(target)
    except OSError as error:
        raise TryLater(f"no port of this machine can be used: {error}") from error
    with door:
        yield door


def is_ours(port: int, to_port: int, table: Path = Path("/proc/net/tcp"), user: int | None = None) -> bool:
    """Whether the socket at this port, connected to `to_port`, is of our own user; True where no table tells."""
    if not table.exists():
        return True
    user = os.getuid() if user is None else user
    for row in table.read_text().splitlines()[1:]:
        words = row.split()
        if words[1].endswith(f":{port:04X}") and words[2].endswith(f":{to_port:04X}"):
            return int(words[7]) == user
    return False
