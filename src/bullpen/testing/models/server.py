"""The mock server: five APIs on one port of this machine, answered by one function."""

from __future__ import annotations

import itertools
import json
import socket
import struct
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

from bullpen.testing.models import anthropic, bedrock, chat, gemini, responses
from bullpen.testing.models.rules import refusal
from bullpen.testing.models.shapes import Api, Fault, ModelRequest, Reply, tokens_of
from bullpen.testing.models.wire import spoken, tells_usage

Brain: TypeAlias = Callable[[ModelRequest], Reply | Fault]


@dataclass(frozen=True, slots=True)
class _Route:
    api: Api
    wire: ModuleType
    # The key of the token count in the answer, if that is what is asked.
    count: str | None = None
    # What this API has in the path and the others in the body.
    in_path: Mapping[str, Any] = field(default_factory=dict)


_ROUTES = {
    "/v1/messages": _Route("anthropic", anthropic),
    "/v1/messages/count_tokens": _Route("anthropic", anthropic, "input_tokens"),
    "/v1/responses": _Route("responses", responses),
    "/v1/chat/completions": _Route("chat", chat),
}


# The counts in the usage of each API that add up to all its tokens.
_TOKENS = (
    *("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    *("prompt_tokens", "completion_tokens"),
    *("promptTokenCount", "candidatesTokenCount"),
    *("inputTokens", "outputTokens"),
)


_OUTPUTS = ("output_tokens", "completion_tokens", "candidatesTokenCount", "outputTokens")


def _usage_key(request: ModelRequest) -> str:
    return "usageMetadata" if request.api == "gemini" else "usage"


# The addresses of servers that need no key.
_LOCAL = ("LITELLM_BASE_URL", "OLLAMA_BASE_URL", "VLLM_BASE_URL", "LLAMACPP_BASE_URL")


def _route(path: str) -> _Route | None:
    google, amazon = gemini.split(path), bedrock.split(path)
    if amazon is not None:
        return _Route("bedrock", bedrock, None, {"model": amazon[0], "stream": amazon[1]})
    if google is None:
        # Azure has it elsewhere.
        chats = path.endswith("/chat/completions")
        return _ROUTES["/v1/chat/completions"] if chats else _ROUTES.get(path)
    model, method = google
    in_path = {"model": model, "stream": method == "streamGenerateContent"}
    return _Route("gemini", gemini, "totalTokens" if method == "countTokens" else None, in_path)


class MockModels:
    """A model server on 127.0.0.1 for the duration of a `with` block. Other processes can use it.

    `requests` has every request in order of arrival. `told` is what it tells by GET: what is at a
    path, as JSON. If the brain raises, the answer is a 400, and
    the error is raised when the `with` block ends. With `strict`, a conversation that the vendors
    refuse is refused.
    """

    def __init__(self, brain: Brain, *, strict: bool = False) -> None:
        self.brain = brain
        self._strict = strict
        self.told: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._requests: list[ModelRequest] = []
        self._billed: list[tuple[ModelRequest, Mapping[str, Any]]] = []
        self._errors: list[Exception] = []
        self.numbers = itertools.count(1)
        self.closing = threading.Event()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Return where it listens."""
        if self._server is None:
            raise RuntimeError("The mock is not running. Use it in a with block.")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """Return the value for OPENAI_BASE_URL."""
        return f"{self.url}/v1"

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of an agent that uses this server for every vendor."""
        return {
            "ANTHROPIC_API_KEY": "mock-anthropic-key",
            "ANTHROPIC_BASE_URL": self.url,
            "OPENAI_API_KEY": "mock-openai-key",
            "OPENAI_BASE_URL": self.openai_url,
            "GEMINI_API_KEY": "mock-google-key",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            # Not a bearer token: the library sends that only over TLS.
            "AWS_ACCESS_KEY_ID": "mock-amazon-key",
            "AWS_SECRET_ACCESS_KEY": "mock-amazon-secret",
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": self.url,
            "AWS_REGION": "eu-central-1",
            "AZURE_OPENAI_API_KEY": "mock-azure-key",
            "AZURE_OPENAI_ENDPOINT": self.url,
            "OPENROUTER_API_KEY": "mock-openrouter-key",
            "OPENROUTER_BASE_URL": self.openai_url,
            "GROQ_API_KEY": "mock-groq-key",
            "GROQ_BASE_URL": self.openai_url,
            "GOOGLE_API_KEY": "mock-google-key",
            "GOOGLE_VERTEX_BASE_URL": self.url,
            **dict.fromkeys(_LOCAL, self.openai_url),
        }

    @property
    def requests(self) -> list[ModelRequest]:
        """Return a copy of the requests so far."""
        with self._lock:
            return list(self._requests)

    @property
    def billed(self) -> list[Mapping[str, Any]]:
        """Return the usage in the answers so far, in the words of their API."""
        with self._lock:
            return [usage for _, usage in self._billed]

    def bill(self, request: ModelRequest, usage: Mapping[str, Any]) -> None:
        """Record the usage of an answer."""
        with self._lock:
            self._billed.append((request, usage))

    def tokens(self, counts: Callable[[ModelRequest], bool] = lambda _: True) -> int:
        """Return the tokens of the answers so far, in both directions, cached or not.

        With `counts`, only those of the requests that it accepts.
        """
        with self._lock:
            billed = [usage for request, usage in self._billed if counts(request)]
        return sum(usage.get(name, 0) for usage in billed for name in _TOKENS)

    def of(self, agent: str) -> list[ModelRequest]:
        """Return the requests of one agent so far."""
        return [request for request in self.requests if request.agent == agent]

    def answer(self, request: ModelRequest) -> Reply | Fault:
        """Record the request and ask the brain."""
        with self._lock:
            self._requests.append(request)
        why = refusal(request) if self._strict else None
        if why is not None:
            return Fault.refused(why)
        try:
            return self.brain(request)
        except Exception as error:
            with self._lock:
                self._errors.append(error)
            return Fault(400, "invalid_request_error", "".join(traceback.format_exception(error)))

    def __enter__(self) -> MockModels:
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(10)
        if error is None and self._errors:
            raise self._errors[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Kept-alive connections hold their threads; nobody waits for those.
    block_on_close = False
    request_queue_size = 256

    def __init__(self, mock: MockModels) -> None:
        self.mock = mock
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: clients are killed in the middle of requests on purpose."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    # Whether the stream under way is binary.
    _framed = False

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""

    def do_GET(self) -> None:
        told = self.server.mock.told.get(self.path.partition("?")[0])
        self._json(404 if told is None else 200, told)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        route = _route(path)
        if route is None:
            self._json(404, {"error": {"type": "not_found_error", "message": f"No {path} here."}})
            return
        wire = route.wire
        request = self._read(route, json.loads(raw))
        if route.count is not None:
            self._json(200, {route.count: request.tokens})
            return
        answer = self.server.mock.answer(request)
        if isinstance(answer, Fault):
            self._fail(request, answer, wire)
        elif not self._pause(answer.delay_s):
            self._reply(request, answer, wire)

    def _read(self, route: _Route, body: dict[str, Any]) -> ModelRequest:
        body |= route.in_path
        system, turns = route.wire.read(body)
        return ModelRequest(
            api=route.api,
            model=body["model"],
            system=system,
            turns=tuple(turns),
            tools=route.wire.tools(body),
            stream=bool(body.get("stream")),
            body=body,
            headers={name.lower(): value for name, value in self.headers.items()},
            at=time.monotonic(),
        )

    def _reply(self, request: ModelRequest, reply: Reply, wire: ModuleType) -> None:
        number = next(self.server.mock.numbers)
        answer = wire.whole(request, reply, number)
        usage = answer[_usage_key(request)]
        self.server.mock.bill(request, usage)
        if not request.stream:
            self._json(200, answer)
            return
        self._open_stream(request)
        for name, data in wire.events(request, reply, number):
            self._event(name, data)
        self.wfile.write(b"0\r\n\r\n")

    def _fail(self, request: ModelRequest, fault: Fault, wire: ModuleType) -> None:
        if self._pause(fault.hang_s):
            return
        if fault.raw is not None:
            self._body(fault.status, fault.raw.encode(), "text/html", dict(fault.headers))
        elif fault.drop is not None and request.stream:
            self._break_reply(request, fault, fault.drop, wire)
        elif fault.status:
            body = wire.error(fault) if fault.body is None else dict(fault.body)
            named = bedrock.error_headers(fault) if wire is bedrock else {}
            self._json(fault.status, body, {**named, **fault.headers})
        else:
            self._break_off()

    def _break_reply(
        self, request: ModelRequest, fault: Fault, reply: Reply, wire: ModuleType
    ) -> None:
        """Begin an answer, bill what was said of it, and break it as the fault says."""
        number = next(self.server.mock.numbers)
        events = list(wire.events(request, reply, number))
        after = max(len(events) * 2 // 3, 1) if fault.after is None else fault.after
        usage = wire.whole(request, reply, number)[_usage_key(request)]
        if not any(tells_usage(data) for _, data in events[:after]):
            said = tokens_of("".join(spoken(data) for _, data in events[:after]))
            outputs = dict.fromkeys(_OUTPUTS, said)
            usage = {**usage, **{key: outputs[key] for key in outputs if key in usage}}
        self.server.mock.bill(request, usage)
        self._open_stream(request)
        for name, data in events[:after]:
            self._event(name, data)
        match fault.how:
            case "reset":
                self._break_off()
                return
            case "silence":
                self.server.mock.closing.wait(30)
            case "damage":
                name, data = events[min(after, len(events) - 1)]
                self._event(name, json.dumps(data)[:-7])
                for name, data in events[after + 1 :]:
                    self._event(name, data)
            case "error":
                self._event(*wire.error_event(fault))
        if fault.how in ("end", "damage", "error"):
            self.wfile.write(b"0\r\n\r\n")
        # Otherwise the last chunk is missing, so that nobody takes this for the end of the answer.
        self.close_connection = True

    def _pause(self, seconds: float) -> bool:
        """Wait. True if the server closes meanwhile and must not answer any more."""
        if seconds <= 0 or not self.server.mock.closing.wait(seconds):
            return False
        self._break_off()
        return True

    def _json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self._body(status, json.dumps(body).encode(), "application/json", headers or {})

    def _body(self, status: int, data: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _open_stream(self, request: ModelRequest) -> None:
        self._framed = request.api == "bedrock"
        self.send_response(200)
        self.send_header("content-type", bedrock.STREAM if self._framed else "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _event(self, name: str, data: Any) -> None:
        if self._framed:
            self._chunk(bedrock.frame(name, data))
            return
        text = data if isinstance(data, str) else json.dumps(data)
        head = f"event: {name}\n" if name else ""
        self._chunk(f"{head}data: {text}\n\n".encode())

    def _chunk(self, block: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
        self.wfile.flush()

    def _break_off(self) -> None:
        # A reset, not an orderly end: nobody can take it for an empty answer.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
