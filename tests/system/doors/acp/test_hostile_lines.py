"""Lines that are no messages, and messages that mean nothing, do not stop the agent."""

from __future__ import annotations

import json
from typing import Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from support.doors.acp_editor import BULLPEN, DEADLINE_S, Editor

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}

LINES = [
    b"{",
    b"\xff\xfe\x00",
    b"[" * 20_000,
    b'[{"jsonrpc":"2.0","id":5,"method":"initialize","params":{}}]',
    b'"words"',
    b'{"jsonrpc":"2.0","id":{},"method":7}',
    b'{"jsonrpc":"2.0","id":99,"result":{}}',
    b'{"jsonrpc":"2.0","id":20,"method":"session/prompt","params":{"sessionId":"x"}}',
    (
        b'{"jsonrpc":"2.0","id":21,"method":"session/prompt",'
        b'"params":{"sessionId":"../../etc","prompt":[{"type":"text","text":"hi"}]}}'
    ),
    (
        b'{"jsonrpc":"2.0","id":22,"method":"session/load",'
        b'"params":{"sessionId":"../../etc","cwd":"/","mcpServers":[]}}'
    ),
    b'{"jsonrpc":"2.0","id":23,"method":"session/new","params":{"cwd":"rel","mcpServers":[]}}',
    b'{"jsonrpc":"2.0","id":24,"method":"no/such","params":{}}',
    b'{"jsonrpc":"2.0","id":25,"method":"session/new"}',
    b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nobody"}}',
    b"",
]

ANSWERED = {None, 1, 2, *range(20, 26)}


async def test_garbled_lines_are_answered_with_errors_and_the_agent_goes_on(
    editor: Editor,
) -> None:
    last = {**HELLO, "id": 2}
    given = b"\n".join([json.dumps(HELLO).encode(), *LINES, json.dumps(last).encode(), b""])
    answers: list[dict[str, Any]] = []
    with anyio.fail_after(DEADLINE_S):
        async with await anyio.open_process(
            [BULLPEN, "acp", *editor.command], env=editor.env, stderr=None
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            await process.stdin.send(given)
            lines = BufferedByteReceiveStream(process.stdout)
            while not {each["id"] for each in answers} >= ANSWERED:
                answers.append(json.loads(await lines.receive_until(b"\n", 1_000_000)))
            await process.stdin.aclose()
            assert await process.wait() == 0
            assert lines.buffer == b""
    by_id = {each["id"]: each for each in answers if each["id"] is not None}
    assert "result" in by_id[1] and "result" in by_id[2]
    for number in (20, 21, 22, 23, 24, 25):
        assert by_id[number]["error"]["code"] < 0, number
    assert {each["error"]["code"] for each in answers if each["id"] is None} == {-32700, -32600}
    assert not editor.home.exists() or not list(editor.home.glob("teams/*"))


async def test_at_a_terminal_it_says_what_it_expects(editor: Editor) -> None:
    done = await anyio.run_process(
        ["script", "-qec", f"{BULLPEN} acp", "/dev/null"], env=editor.env, check=False
    )
    assert b"expects a program that speaks ACP" in done.stdout
