"""Role files of a project: they lie in the project, and the agent may read them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from bullpen.agents.config.definitions import find, list_definitions
from bullpen.agents.config.settings import read_settings
from bullpen.agents.config.spec import SpawnFiles, SpawnRequest, resolve
from bullpen.errors import Refused, Unreadable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Policy

KEY = "sk-ant-api03-" + "A1b2" * 20
PRIVATE = "---\nname: reviewer\ndescription: d\n---\nPRIVATE-NOTES\n"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "user/.claude/agents").mkdir(parents=True)
    (tmp_path / "user/notes.md").write_text(PRIVATE)
    return tmp_path / "user"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "clone/.git").mkdir(parents=True)
    (tmp_path / "clone/.claude/agents").mkdir(parents=True)
    return tmp_path / "clone"


async def spawned(clone: Path, user: Path, **fields: object) -> AgentSpec:
    request = SpawnRequest(
        cwd=str(clone),
        driver="scripted",
        script="x",
        role="reviewer",
        **fields,  # type: ignore[arg-type]
    )
    return await resolve(request, SpawnFiles(user / ".bullpen", {"HOME": str(user)}))


def test_a_role_file_that_leads_out_of_the_project_is_not_read(clone: Path, user: Path) -> None:
    (clone / ".claude/agents/reviewer.md").symlink_to(user / "notes.md")
    with pytest.raises(Unreadable, match="out of the project") as caught:
        find("reviewer", clone, user)
    assert "PRIVATE" not in str(caught.value)


def test_a_folder_of_roles_that_leads_out_of_the_project_is_not_read(
    clone: Path, user: Path
) -> None:
    (clone / ".bullpen").mkdir()
    (clone / ".bullpen/agents").symlink_to(user)
    found = list_definitions(clone, user)
    assert all(role.path.parent.name == "agent_types" for role in found.found.values())
    assert [Path(each.path).name for each in found.unreadable] == ["notes.md"]


def test_links_in_the_folder_of_the_user_may_lead_anywhere(
    clone: Path, user: Path, tmp_path: Path
) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/reviewer.md").write_text(PRIVATE)
    (user / ".claude/agents/reviewer.md").symlink_to(tmp_path / "dotfiles/reviewer.md")
    assert find("reviewer", clone, user).instructions == "PRIVATE-NOTES"


def test_a_pipe_in_place_of_a_role_or_a_settings_file_does_not_block(
    clone: Path, user: Path
) -> None:
    os.mkfifo(clone / ".claude/agents/reviewer.md")
    os.mkfifo(clone / ".claude/settings.json")
    caught: list[str] = []

    def look() -> None:
        for act in (
            lambda: find("reviewer", clone, user),
            lambda: read_settings(clone, user_home=user, home=user / ".bullpen"),
        ):
            try:
                act()
            except Unreadable as error:
                caught.append(str(error))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(60)
    assert len(caught) == 2 and all("regular file" in text for text in caught)


async def test_a_role_that_the_agent_may_not_read_is_refused(clone: Path, user: Path) -> None:
    (clone / ".claude/agents/reviewer.md").write_text(PRIVATE)
    assert (await spawned(clone, user)).instructions == "PRIVATE-NOTES"
    for policy in (Policy.new(deny=["Read(.claude/**)"]), Policy.new(ask=["Read(.claude/**)"])):
        with pytest.raises(Refused) as caught:
            await spawned(clone, user, policy=policy)
        assert caught.value.reason == "denied"


async def test_a_role_without_the_tool_read_can_be_used(clone: Path, user: Path) -> None:
    (clone / ".claude/agents/reviewer.md").write_text(
        PRIVATE.replace("description: d", "disallowedTools: Read")
    )
    assert (await spawned(clone, user)).disallowed_tools == ["Read"]


async def test_secrets_in_a_role_are_redacted_for_every_driver(clone: Path, user: Path) -> None:
    (clone / ".claude/agents/reviewer.md").write_text(
        f"---\nname: reviewer\ninitialPrompt: Use {KEY}\n---\nUse {KEY} always.\n"
    )
    made = await spawned(clone, user)
    assert made.instructions == "Use [secret] always."
    assert made.prompt == "Use [secret]"
