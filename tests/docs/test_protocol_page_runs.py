"""The protocol page names every field, and its scripts work as they stand there, beside us too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from bullpen.protocol import json_text
from bullpen.protocol.message import Message
from bullpen.protocol.team import Member, TeamConfig
from bullpen.store.files.store import FileStore

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
RUNS = {"sh": ("sh", "append.sh"), "js": ("node", "append.mjs")}

needs_tools = pytest.mark.skipif(
    not (shutil.which("jq") and shutil.which("node")), reason="needs jq and node"
)


def script(language: str, folder: Path) -> list[str]:
    """The page's script in that language, written to a folder, as a command."""
    block = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = block.findall(PAGE.read_text("utf-8"))
    assert len(found) == 1, f"the page has {len(found)} scripts in {language}"
    program, name = RUNS[language]
    (folder / name).write_text(found[0], "utf-8")
    return [program, str(folder / name)]


def run(command: list[str], inbox: Path, sender: str, text: str) -> int:
    return subprocess.run(
        [*command, str(inbox), sender, text], check=False, capture_output=True, timeout=60
    ).returncode


async def send_with(command: list[str], inbox: Path, text: str) -> None:
    code = await anyio.to_thread.run_sync(run, command, inbox, "script", text)
    assert code == 0


@needs_tools
@pytest.mark.parametrize("language", ["sh", "js"])
def test_a_script_writes_what_we_would_write(language: str, tmp_path: Path) -> None:
    inbox = tmp_path / "alice.json"
    command = script(language, tmp_path)
    texts = ['quotes " and \\ and $HOME', "\N{GRINNING FACE}\nsecond line"]
    for text in texts:
        assert run(command, inbox, "ci", text) == 0
    data = inbox.read_bytes()
    rows = json_text.loads(data)
    assert json_text.dumps(rows) == data
    messages = [Message.parse(row) for row in rows]
    assert [message.text for message in messages] == texts
    assert len({message.msg_id for message in messages}) == 2
    ours = Message.new(
        sender="ci", text="t", timestamp="now", msg_v=1, msg_id="m", type="message", read=False
    )
    assert [list(row) for row in rows] == [list(ours.raw)] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "alice.json",
        RUNS[language][1],
    ]


@needs_tools
@pytest.mark.parametrize("language", ["sh", "js"])
@pytest.mark.parametrize("damage", [b"", b'[{"from": "a"', b"[]  {}\n]", b"{}", b"null"])
def test_a_script_leaves_a_damaged_inbox_alone(
    language: str, damage: bytes, tmp_path: Path
) -> None:
    inbox = tmp_path / "alice.json"
    inbox.write_bytes(damage)
    assert run(script(language, tmp_path), inbox, "ci", "hello") != 0
    assert inbox.read_bytes() == damage
    assert not (tmp_path / "alice.json.lock").exists()


@needs_tools
async def test_scripts_and_bullpen_write_one_inbox_and_nothing_is_lost(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store = FileStore(home, fsync=False)
    members = [Member.new(name=name).raw for name in ("team-lead", "alice")]
    await store.create("t", TeamConfig.new(name="t", members=members), actor="team-lead")
    inbox = home / "teams" / "t" / "inboxes" / "alice.json"
    commands = {language: script(language, tmp_path) for language in RUNS}

    async def send_ours() -> None:
        for number in range(20):
            text = f"ours {number}"
            message = Message.new(sender="team-lead", text=text, timestamp="now", msg_id=text)
            await store.append("t", "alice", message, actor="team-lead")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(send_ours)
            for number in range(6):
                for language, command in commands.items():
                    group.start_soon(send_with, command, inbox, f"{language} {number}")
    rows = json_text.loads(inbox.read_bytes())
    assert sorted(row["text"] for row in rows) == sorted(
        [f"ours {number}" for number in range(20)]
        + [f"{language} {number}" for language in RUNS for number in range(6)]
    )
    box = await store.mailbox("t", "alice")
    assert len(box.entries) == 32
    assert box.problems == ()
    await store.aclose()
