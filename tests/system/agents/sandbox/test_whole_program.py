"""Another vendor's program in the sandbox: its home, the user's login, and its runner's socket."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bullpen.agents.system.program_sandbox import ProgramSandbox
from bullpen.agents.system.spawn_program import spawn_program
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Policy, Sandbox

_PIPE = asyncio.subprocess.PIPE


class _Place:
    """A user who is logged in to Codex, and an agent of that driver."""

    def __init__(self, root: Path) -> None:
        self.home, self.tree, self.folder = root / "home", root / "tree", root / "folder"
        for path in (self.home / ".codex", self.home / ".ssh", self.tree, self.folder):
            path.mkdir(parents=True)
        (self.home / ".codex" / "auth.json").write_text("login\n")
        (self.home / ".ssh" / "id").write_text("key\n")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        self.spec = AgentSpec.new(
            driver="codex",
            backend="in-process",
            cwd=str(self.tree),
            policy=Policy.new(sandbox=Sandbox.new().raw).raw,
        )

    async def run(self, line: str) -> str:
        """Run a line as the program, in a sandbox of its own."""
        box = ProgramSandbox(self.spec, self.folder, [], print)
        process = await spawn_program(
            ["/bin/sh", "-c", line],
            env=self.env,
            cwd=str(self.tree),
            streams=(asyncio.subprocess.DEVNULL, _PIPE, asyncio.subprocess.STDOUT),
            sandbox=box,
        )
        async with asyncio.timeout(60):
            said, _ = await process.communicate()
        await box.aclose()
        return said.decode().strip()


@pytest.fixture
def place(tmp_path: Path) -> _Place:
    return _Place(tmp_path)


async def test_a_program_is_logged_in_and_cannot_change_the_login(place: _Place) -> None:
    text = await place.run("cat ~/.codex/auth.json; echo evil > ~/.codex/auth.json; cat ~/.ssh/id")
    assert text.startswith("login\n")
    assert "Read-only" in text
    assert "key" not in text
    assert (place.home / ".codex" / "auth.json").read_text() == "login\n"


async def test_its_state_stays_for_its_next_start_and_its_settings_do_not(place: _Place) -> None:
    await place.run("echo state > ~/.codex/session; echo evil > ~/.codex/config.toml")
    assert await place.run("cat ~/.codex/session; cat ~/.codex/config.toml") != ""
    text = await place.run("cat ~/.codex/session; ls ~/.codex")
    assert text.split() == ["state", "auth.json", "session"]
    assert sorted(os.listdir(place.home / ".codex")) == ["auth.json"]


async def test_a_link_that_it_left_makes_no_file_elsewhere(place: _Place, tmp_path: Path) -> None:
    """The sandbox makes places to mount on, and must not make them where a link leads."""
    victim = tmp_path / "victim"
    victim.mkdir()
    for target in (str(victim), f"/oldroot{victim}", f"/newroot{victim}"):
        # A directory with a mount in it can be moved away.
        await place.run(f"mv ~/.codex ~/{abs(hash(target))}; ln -s {target} ~/.codex")
        assert (place.folder / "home" / ".codex").is_symlink()
        assert (await place.run("cat ~/.codex/auth.json")).startswith("login")
        assert list(victim.iterdir()) == []


async def test_a_program_that_cannot_be_sandboxed_is_not_started(place: _Place) -> None:
    place.env["PATH"] = str(place.tree)
    with pytest.raises(Unavailable, match="sandbox is not available"):
        await place.run("touch ran")
    assert not (place.tree / "ran").exists()
