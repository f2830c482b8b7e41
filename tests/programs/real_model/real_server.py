"""The real model's server as a process, and a proxy before it that adds up what it charges."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_SERVE = Path(__file__).parent / "serve.py"
_ANSWER_S = 300


@dataclass
class RealModel:
    """Where the model is, and the usage in each of its whole answers."""

    url: str
    window: int
    charged: list[dict[str, int]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """The environment of an agent that uses it."""
        return {"LLAMACPP_BASE_URL": self.url, "OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": "-"}

    @property
    def tokens(self) -> tuple[int, int]:
        """What the server charged: tokens of prompts, and of answers."""
        return (
            sum(usage["prompt_tokens"] for usage in self.charged),
            sum(usage["completion_tokens"] for usage in self.charged),
        )


@contextmanager
def real_model(*, window: int, slots: int) -> Iterator[RealModel]:
    """The server, for the duration of a `with` block."""
    process = subprocess.Popen(
        [sys.executable, str(_SERVE), str(window), str(slots)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        behind = process.stdout.readline().strip()
        assert behind.startswith("http://127.0.0.1:"), behind
        model = RealModel("", window)
        with _proxy(behind, model):
            yield model
    finally:
        process.kill()
        process.wait(30)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def _proxy(behind: str, model: RealModel) -> Iterator[None]:
    host = urlsplit(behind).netloc

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Print nothing."""

        def do_GET(self) -> None:
            self._forward(None)

        def do_POST(self) -> None:
            self._forward(self.rfile.read(int(self.headers["content-length"])))

        def _forward(self, body: bytes | None) -> None:
            connection = HTTPConnection(host, timeout=_ANSWER_S)
            try:
                kept = {"content-type": "application/json"}
                connection.request("GET" if body is None else "POST", self.path, body, kept)
                answer = connection.getresponse()
                if body is not None:
                    model.statuses.append(answer.status)
                self.send_response(answer.status)
                self.send_header("content-type", answer.getheader("content-type") or "")
                self.end_headers()
                for line in answer:
                    if line.startswith(b"data: {"):
                        self._charge(json.loads(line[6:]))
                    self.wfile.write(line)
                    self.wfile.flush()
            finally:
                connection.close()

        def _charge(self, event: dict[str, Any]) -> None:
            if usage := event.get("usage"):
                model.charged.append(usage)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
