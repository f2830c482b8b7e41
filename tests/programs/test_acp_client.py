"""The client of the official TypeScript SDK drives a team as it drives any agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio

from support.doors.acp_editor import BULLPEN, DEADLINE_S, Editor

from .real_programs import program

CLIENT = Path(__file__).with_name("acp_client.mjs")


async def talk(editor: Editor, *steps: dict[str, str]) -> list[dict[str, Any]]:
    """What the client printed: what it was told and asked, and how each prompt ended."""
    sdk = program("acp-client")
    plan = editor.home.with_name("steps.json")
    plan.write_text(json.dumps(steps), encoding="utf-8")
    folder = str(Path(sdk.argv[0]).parent)
    words = [str(sdk.node_dir / "node"), str(CLIENT), folder, str(editor.project), str(plan)]
    with anyio.fail_after(DEADLINE_S):
        done = await anyio.run_process(
            [*words, BULLPEN, "acp", *editor.command], env=editor.env, stderr=None
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def words_of(rows: list[dict[str, Any]], kind: str = "agent_message_chunk") -> list[str]:
    return [row["content"]["text"] for row in rows if row.get("sessionUpdate") == kind]


def each(rows: list[dict[str, Any]], key: str) -> list[Any]:
    return [row[key] for row in rows if key in row]


async def test_it_prompts_answers_cancels_and_loads(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    rows = await talk(
        editor,
        {"say": "Begin", "answer": "allow_once"},
        {"say": "wait for me", "cancelAfter": "I wait."},
        {"say": "go on"},
    )
    assert each(rows, "stopped") == ["end_turn", "cancelled", "end_turn"]
    assert each(rows, "asked") == [{"command": "touch made"}]
    assert (editor.project / "made").exists()
    assert words_of(rows) == ["Which grammar?", "I wait.", "I heard you."]
    (plan,) = [row["entries"] for row in rows if row.get("sessionUpdate") == "plan"]
    assert [step["content"] for step in plan] == ["#1 Write the parser"]
    assert each(rows, "exit") == [0]
    (session,) = each(rows, "opened")
    later = await talk(editor, {"load": session, "say": "more"})
    assert words_of(later, "user_message_chunk") == ["Begin", "wait for me", "go on"]
    assert words_of(later)[:3] == words_of(rows)
    assert words_of(later)[3:] == ["I heard you."]
    assert each(later, "stopped") == ["end_turn"]


async def test_it_denies_and_chooses_a_mode(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    rows = await talk(editor, {"say": "Begin", "answer": "reject_once", "mode": "acceptEdits"})
    assert each(rows, "asked") == [{"command": "touch made"}]
    assert each(rows, "stopped") == ["end_turn"]
    assert not (editor.project / "made").exists()
