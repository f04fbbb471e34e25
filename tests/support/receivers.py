"""A receiver of alerts on loopback, that takes them or misbehaves as it is told."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEST_ENDED_AFTER_S = 60.0


@dataclass
class Inbox:
    """What came, and how the next ones are answered."""

    port: int
    behaviour: str = "take"
    """take, hang, reset, drip, or a status such as 500."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """What was taken, in order."""
    asked: int = 0
    """How often somebody called, whatever came of it."""
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """As a line of the Secret."""
        return f"json://127.0.0.1:{self.port}/hook"

    @property
    def titles(self) -> list[str]:
        """The first lines of what was taken."""
        return [str(message["title"]) for message in self.messages]

    def has(self, count: int) -> bool:
        """Whether so many were taken."""
        return len(self.messages) == count

    def answer(self, call: BaseHTTPRequestHandler) -> None:
        """Take it, or not."""
        self.asked += 1
        body = json.loads(call.rfile.read(int(call.headers["Content-Length"])))
        match self.behaviour:
            case "take":
                self.messages.append(body)
                _say(call, 200)
            case "hang":
                self.over.wait(TEST_ENDED_AFTER_S)
            case "reset":
                call.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                call.connection.close()
            case "drip":
                call.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not self.over.wait(0.05):
                    call.wfile.write(b".")
            case status:
                _say(call, int(status))


def _say(call: BaseHTTPRequestHandler, status: int) -> None:
    call.send_response(status)
    if status == 302:
        call.send_header("Location", "/elsewhere")
    if status == 429:
        call.send_header("Retry-After", "3600")
    call.send_header("Content-Length", "0")
    call.end_headers()


@contextmanager
def an_inbox() -> Iterator[Inbox]:
    """A receiver that listens until the block ends."""
    box: list[Inbox] = []

    class Call(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                box[0].answer(self)
            except OSError:
                self.close_connection = True  # who called has given up

        def log_message(self, *_: Any) -> None:
            """Quietly."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Call) as server:
        server.daemon_threads = True
        server.block_on_close = False
        box.append(Inbox(server.server_address[1]))
        serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            yield box[0]
        finally:
            box[0].over.set()
            server.shutdown()
            serving.join(5)
