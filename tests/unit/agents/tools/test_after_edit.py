"""Commands after an edit: those a person set, judged as the agent's own, and told to the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.tools.files import after_edit
from bullpen.errors import Refused

if TYPE_CHECKING:
    from support.agents.tools_fixtures import Bench, MakeBench

COMMANDS = {"*.py": ["format {file}", "check {file}"], "src/*": ["count"]}


def in_upper_case(path: Path) -> None:
    path.write_bytes(path.read_bytes().upper())


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that were run; `format` puts text into upper case."""
    commands: list[str] = []

    async def run(command: str, desk: Desk, seconds: float) -> tuple[int | None, str]:
        commands.append(command)
        if command.startswith("format"):
            in_upper_case(Path(command.removeprefix("format ").strip("'")))
            return 0, "1 file changed"
        return (1, "E1 unused import") if command.startswith("check") else (None, "")

    monkeypatch.setattr(after_edit, "ran", run)
    return commands


async def test_each_kind_of_edit_is_followed_by_the_commands_for_its_files(
    make_bench: MakeBench, ran: list[str]
) -> None:
    ann = make_bench("ann", after_edit=COMMANDS)
    said = await ann.ok("Write", file_path="a b.py", content="x\n")
    path = ann.cwd / "a b.py"
    assert ran == [f"format '{path}'", f"check '{path}'"]
    assert "passed\n1 file changed" in said and "exit code 1\nE1 unused import" in said
    assert "Read it again" in said and path.read_text() == "X\n"
    await ann.ok("Edit", file_path="a b.py", old_string="X", new_string="y")
    edits = [{"old_string": "Y", "new_string": "z"}]
    await ann.ok("MultiEdit", file_path="a b.py", edits=edits)
    lines = ["*** Begin Patch", "*** Add File: src/c.txt", "+c", "*** Update File: a b.py"]
    patch = "\n".join([*lines, "@@", "-Z", "+w", "*** End Patch"])
    said = await ann.ok("apply_patch", input=patch)
    assert len(ran) == 9 and ran[6] == "count"
    assert "`count`: did not end in 30 s" in said
    assert path.read_text() == "W\n"


async def test_files_that_no_pattern_is_about_run_nothing(
    make_bench: MakeBench, ran: list[str]
) -> None:
    ann = make_bench("ann", after_edit=COMMANDS)
    await ann.ok("Write", file_path="a.md", content="x")
    bob = make_bench("bob")
    await bob.ok("Write", file_path="b.py", content="x")
    assert ran == []


async def test_a_command_that_is_not_permitted_does_not_run_and_the_edit_stays(
    make_bench: MakeBench, ran: list[str]
) -> None:
    ann = make_bench("ann", after_edit=COMMANDS)

    async def no_commands(call: Call) -> Mapping[str, Any]:
        if call.kind == "run":
            raise Refused("You may not do this.", reason="denied")
        return call.input

    ann.desk.permit = no_commands  # type: ignore[method-assign]
    said = await ann.ok("Write", file_path="a.py", content="x")
    assert ran == [] and "was not run: You may not do this." in said
    assert (ann.cwd / "a.py").read_text() == "x"


async def test_an_edit_that_fails_runs_nothing(ann: Bench, ran: list[str]) -> None:
    ann.desk.spec = ann.desk.spec.evolve(after_edit=COMMANDS)
    await ann.refused("Edit", file_path="a.py", old_string="x", new_string="y")
    assert ran == []
