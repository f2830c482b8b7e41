"""A program of another vendor: it speaks ACP, has tools of its own, and uses ours over MCP.

    python program.py WORK PLAN

Both protocols are spoken by hand, as a program in another language would.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
from typing import Any

YOURS = re.compile(r"claimed task: #(\d+)|Task #(\d+)[^.]* is still yours")
TRIES = 3


class ToolServer:
    """The team's tools, from a server that this program starts."""

    def __init__(self, named: dict[str, Any], cwd: str) -> None:
        env = {each["name"]: each["value"] for each in named["env"]}
        self._process = subprocess.Popen(
            [named["command"], *named["args"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            cwd=cwd,
        )
        self._ids = itertools.count(1)
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self._ask("initialize", {**hello, "clientInfo": {"name": "program", "version": "1"}})
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **given: Any) -> bool:
        """Whether the tool did it."""
        answer = self._ask("tools/call", {"name": tool, "arguments": given})
        return "result" in answer and not answer["result"].get("isError")

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found: dict[str, Any] = json.loads(line)
            if found.get("id") == number:
                return found
        return {}

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


class Program:
    """One session, one prompt at a time; a cancel ends what runs."""

    def __init__(self, work: list[str]) -> None:
        self._work = work
        self._cwd = "."
        self._server: ToolServer | None = None
        self._running: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def answer(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params") or {}
        if method == "initialize":
            self._reply(message, protocolVersion=1, agentCapabilities={})
        elif method == "session/new":
            self._cwd = params["cwd"]
            servers = params.get("mcpServers") or []
            self._server = ToolServer(servers[0], self._cwd) if servers else None
            self._reply(message, sessionId="s-1")
        elif method == "session/prompt":
            # A cancel may come while it works.
            threading.Thread(target=self._prompt, args=(message,), daemon=True).start()
        elif method == "session/cancel":
            self._cancelled = True
            if self._running is not None:
                self._running.kill()
        elif "id" in message and method is not None:
            _write({"id": message["id"], "error": {"code": -32601, "message": "No such method"}})

    def _prompt(self, message: dict[str, Any]) -> None:
        self._cancelled = False
        text = "".join(block.get("text", "") for block in message["params"]["prompt"])
        for found in YOURS.findall(text)[-1:]:
            self._do(found[0] or found[1])
        said = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "Done."},
        }
        update = {"sessionId": "s-1", "update": said}
        _write({"method": "session/update", "params": update})
        self._reply(message, stopReason="cancelled" if self._cancelled else "end_turn")

    def _do(self, task_id: str) -> None:
        for _ in range(TRIES):
            self._running = subprocess.Popen([*self._work, task_id], cwd=self._cwd)
            self._running.wait()
            if self._cancelled or self._server is None:
                return
            if self._server.call("TaskUpdate", taskId=task_id, status="completed"):
                return

    def _reply(self, message: dict[str, Any], **result: Any) -> None:
        _write({"id": message["id"], "result": result})


def _write(message: dict[str, Any]) -> None:
    # One write for each line: two threads speak.
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    program = Program([sys.executable, "-I", "-S", *sys.argv[1:]])
    for line in sys.stdin:
        program.answer(json.loads(line))
