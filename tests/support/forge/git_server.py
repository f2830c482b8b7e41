"""A git server over smart HTTP with a password, that can be told to misbehave."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


@dataclass
class GitServer:
    """Serves the bare repositories below `root` at `url`."""

    root: Path
    password: str
    url: str = ""
    # Where every request is redirected to, if anywhere.
    redirect: str | None = None
    # A status that every request gets, if any.
    status: int | None = None
    # What is held until it is set.
    gate: threading.Event = field(default_factory=threading.Event)
    is_stuck: bool = False
    # What clients sent as credentials.
    seen: list[str] = field(default_factory=list)


@contextmanager
def git_server(root: Path, password: str) -> Iterator[GitServer]:
    """Serve the bare repositories below a folder on a free port of this machine."""
    state = GitServer(root, password)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Be quiet."""

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b"".join(self._chunks())
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer(body)

        def _chunks(self) -> Iterator[bytes]:
            while size := int(self.rfile.readline().strip(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        def _answer(self, body: bytes) -> None:
            given = self.headers.get("Authorization", "")
            said = base64.b64decode(given.removeprefix("Basic ")).decode() if given else ""
            state.seen.append(said)
            if state.is_stuck:
                state.gate.wait(60)
            if state.redirect is not None:
                self.send_response(302)
                self.send_header("Location", state.redirect + self.path)
                self.end_headers()
            elif state.status is not None:
                self.send_error(state.status)
            elif said.partition(":")[2] != state.password:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="forge"')
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self._backend(body)

        def _backend(self, body: bytes) -> None:
            asked = urlsplit(self.path)
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(state.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": asked.path,
                "QUERY_STRING": asked.query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "REMOTE_USER": "bullpen",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "GIT_CONFIG_NOSYSTEM": "1",
                "HOME": str(state.root),
            }
            ran = subprocess.run(
                ["git", "http-backend"], input=body, env=env, capture_output=True, check=False
            )
            head, _, rest = ran.stdout.partition(b"\r\n\r\n")
            rows = [row.split(": ", 1) for row in head.decode().splitlines()]
            status = next((value for name, value in rows if name == "Status"), "200 OK")
            self.send_response(int(status.split()[0]))
            for name, value in rows:
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()
