"""Real programs run whole in a sandbox: they work as before, and reach nothing else."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.protocol.policy import Policy, Sandbox
from bullpen.sandbox.network.host_rules import hosts_in
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_stage import Stage, started, take
from programs.claude_code_puppet import ClaudeCodePuppet
from programs.puppet import AcpPuppet, ProgramPuppet
from programs.real_programs import CLAUDE_CODE_VERSIONS

_PROGRAMS = ["codex", "claude", "goose", "claude-code"]
if os.environ.get("BULLPEN_NIGHTLY"):
    _PROGRAMS += ["gemini", "opencode", "qwen"]


class TestSandboxedPrograms(Stage):
    @pytest.fixture(params=_PROGRAMS)
    def puppet(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProgramPuppet]:
        if request.param == "claude-code":
            puppet: ProgramPuppet = ClaudeCodePuppet(CLAUDE_CODE_VERSIONS[-1], tmp_path)
        else:
            puppet = AcpPuppet(request.param, tmp_path)
        project = tmp_path / "project"
        project.mkdir()
        with puppet.mock as mock:
            # Some programs have the address of their model in a file, which we do not read.
            sandbox = Sandbox.new(hosts=hosts_in([mock.url]))
            puppet.spec = puppet.spec.evolve(
                cwd=str(project),
                mode="bypassPermissions",
                policy=Policy.new(sandbox=sandbox.raw).raw,
            )
            yield puppet

    async def test_a_program_works_and_writes_only_in_its_tree(
        self, puppet: ProgramPuppet, desk: RecordingDesk, tmp_path: Path
    ) -> None:
        """Its own shell writes inside only, sees no key, and calls nobody but its model."""
        key = tmp_path / "home" / ".ssh" / "id"
        key.parent.mkdir(parents=True)
        key.write_text(f"hidden-{secrets.token_hex(8)}\n")
        project = Path(puppet.spec.cwd)
        outside = tmp_path / "outside"
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            port = listener.getsockname()[1]
            puppet.use_tool("TaskCreate", {"subject": "Seen", "description": "From inside."})
            line = (
                f"echo made > made.txt; cat {key} > stolen.txt; echo out > {outside};"
                f" echo x > /dev/tcp/127.0.0.1/{port}; touch ~/of-its-own; true"
            )
            puppet.use_tool("Bash", {"command": line})
            puppet.say("Done.")
            puppet.say("Again.")
            async with started(puppet, desk) as driver:
                assert (await take(driver, desk)).text == "Done."
            # Its conversation is in its own home, which outlives the process.
            async with started(puppet, desk) as again:
                assert (await take(again, desk)).text == "Again."
            with pytest.raises(BlockingIOError):
                listener.accept()
        tasks = await desk.team.tasks.list()
        assert [task.subject for task in tasks.tasks] == ["Seen"]
        assert (project / "made.txt").read_text() == "made\n"
        assert (project / "stolen.txt").read_text() == ""
        assert not outside.exists()
        assert not (tmp_path / "home" / "of-its-own").exists()
