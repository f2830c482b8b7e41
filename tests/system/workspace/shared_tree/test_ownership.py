"""Whose a path is in a shared tree: who gets it, for how long, and what is kept of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.contracts.call import Call
from bullpen.agents.drivers.acp.calls import calls_of
from bullpen.agents.drivers.acp.program_events import ToolUse
from bullpen.agents.system.transcript import rows
from bullpen.errors import Refused, Unreadable
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.workspace.shared import edits, ownership
from bullpen.workspace.shared.ownership import Owner, Ownership
from support.crews import eventually
from support.git.repositories import git, make_repository, only_these_settings
from support.offices import Place

from .shared_stage import ANNS, Stage, with_edits


async def reason(stage: Stage, who: str, call: Call) -> str | None:
    """Why a call is refused; None if it is not."""
    try:
        await stage.desks[who].permit(call)
    except Refused as refused:
        return refused.reason
    return None


def edit(path: str | Path, tool: str = "Edit") -> Call:
    key = "notebook_path" if tool == "NotebookEdit" else "file_path"
    return Call(tool, {key: str(path)}, "write")


class TestWhoHasIt:
    async def test_it_is_refused_with_whose_it_is_and_what_to_do(self, stage: Stage) -> None:
        await stage.write("ann", "src/ann.py", b"ann = 2\n")
        with pytest.raises(Refused) as refused:
            await stage.desks["bob"].permit(edit(stage.top / "src/ann.py"))
        assert refused.value.reason == "path_owned"
        assert "ann is working on src/ann.py (task #1)" in refused.value.message
        assert refused.value.remedy == "Ask ann, or work on another file."
        (denied,) = rows(stage.folder / "bob/transcript.jsonl")
        assert denied["kind"] == "denied"

    @pytest.mark.parametrize("tool", ["Write", "Edit", "NotebookEdit", "MultiEdit"])
    async def test_every_tool_that_writes_is_held_to_it(self, stage: Stage, tool: str) -> None:
        await stage.write("ann", "src/ann.py", b"ann = 2\n")
        assert await reason(stage, "bob", edit(stage.top / "src/ann.py", tool)) == "path_owned"
        assert await reason(stage, "bob", edit("src/ann.py", tool)) == "path_owned"
        assert await reason(stage, "ann", edit("src/ann.py", tool)) is None

    async def test_a_file_that_is_not_there_yet_belongs_to_who_makes_it(self, stage: Stage) -> None:
        assert await reason(stage, "ann", edit("src/to come.py", "Write")) is None
        assert await reason(stage, "bob", edit("src/to come.py", "Write")) == "path_owned"

    async def test_a_link_to_it_leads_to_the_same_owner(self, stage: Stage) -> None:
        await stage.write("ann", "src/ann.py", b"ann = 2\n")
        (stage.top / "docs/link.py").symlink_to("../src/ann.py")
        assert await reason(stage, "bob", edit("docs/link.py")) == "path_owned"

    async def test_programs_of_other_vendors_are_held_to_it(self, stage: Stage) -> None:
        await stage.write("ann", "src/ann.py", b"ann = 2\n")
        patch = ToolUse(id="1", kind="edit", title="", input={"changes": {"src/ann.py": {}}})
        command = ToolUse(id="2", kind="execute", title="", input={"command": ["git", "stash"]})
        (written,), (run,) = calls_of(patch), calls_of(command)
        assert await reason(stage, "bob", written) == "path_owned"
        assert await reason(stage, "bob", run) == "others_edits"

    def test_of_many_who_want_it_at_once_one_gets_it(self, tmp_path: Path) -> None:
        """And what the others claim meanwhile is not lost."""
        rounds, names = range(10), [f"agent{number}" for number in range(8)]
        winners: list[str] = []

        def want(name: str) -> None:
            owners = Ownership(tmp_path, "/project")
            for number in rounds:
                owner = Owner(name, "1", "nonce", ownership.now())
                given: dict[str, Any] = {"holds": lambda _: True, "changed": set}
                if owners.claim([f"common{number}"], owner, **given) is None:
                    winners.append(f"{name} {number}")
                assert owners.claim([f"{name}{number}"], owner, **given) is None

        with ThreadPoolExecutor(len(names)) as threads:
            for done in [threads.submit(want, name) for name in names]:
                done.result(timeout=60)
        rows = Ownership(tmp_path, "/project").rows()
        assert sorted(winner.split()[1] for winner in winners) == [str(each) for each in rounds]
        assert sorted(f"{rows[f'common{each}'].agent} {each}" for each in rounds) == sorted(winners)
        assert {f"{name}{each}" for name in names for each in rounds} <= set(rows)

    async def test_outside_of_the_tree_nothing_has_an_owner(self, stage: Stage) -> None:
        path = stage.top.parent / "elsewhere.txt"
        assert await reason(stage, "ann", edit(path, "Write")) is None
        assert await reason(stage, "bob", edit(path, "Write")) is None

    async def test_without_git_nothing_has_an_owner(self, stage: Stage, tmp_path: Path) -> None:
        plain = tmp_path / "plain"
        plain.mkdir()
        for name in ("dan", "eva"):
            await stage.hire(name, cwd=plain)
            assert await reason(stage, name, edit("a.txt", "Write")) is None

    async def test_an_agent_in_a_tree_of_its_own_is_not_looked_at(self, stage: Stage) -> None:
        await stage.write("ann", "src/ann.py", b"ann = 2\n")
        assert await reason(stage, "cid", edit("src/ann.py")) is None

    async def test_what_cannot_be_read_is_not_taken_for_nobodys(self, stage: Stage) -> None:
        await stage.write("ann", "src/ann.py", b"ann = 2\n")
        (kept,) = stage.folder.glob("+tree-*.json")
        kept.write_text('{"paths": ', "utf-8")
        with pytest.raises(Unreadable):
            await stage.desks["bob"].permit(edit("src/ann.py"))


class TestForHowLong:
    @pytest.fixture(autouse=True)
    async def _written(self, stage: Stage) -> None:
        await stage.write("ann", "src/ann.py", b"ann = 2\n")
        assert await reason(stage, "bob", edit("src/ann.py")) == "path_owned"

    async def test_until_the_task_is_completed(self, stage: Stage) -> None:
        await stage.team.tasks.done("1", by="ann")
        assert await reason(stage, "bob", edit("src/ann.py")) is None
        assert await reason(stage, "ann", edit("src/ann.py")) == "path_owned"

    async def test_until_the_task_is_given_back(self, stage: Stage) -> None:
        await stage.team.tasks.release("1", by="ann")
        assert await reason(stage, "bob", edit("src/ann.py")) is None

    async def test_until_the_agent_has_ended(self, stage: Stage) -> None:
        await stage.hire("dan")
        await stage.team.agents.end("ann", "lost", by=LEAD, nonce="nonce-ann", cause="killed")
        assert await reason(stage, "bob", edit("src/ann.py")) is None
        assert await reason(stage, "dan", edit("src/ann.py")) == "path_owned"

    async def test_until_the_agent_is_suspended_with_its_task(self, stage: Stage) -> None:
        await stage.hire("dan")
        await stage.team.agents.end("ann", "suspended", by=LEAD, nonce="nonce-ann", cause="night")
        assert (await stage.team.tasks.get("1")).owner == "ann"
        assert await reason(stage, "bob", edit("src/ann.py")) is None

    async def test_until_it_is_committed(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await stage.bash("ann", "git commit -qm done -- src/ann.py")
        assert await reason(stage, "bob", edit("src/ann.py")) == "path_owned"
        # As if some time had passed: what was just given to her she may be about to write.
        monkeypatch.setattr(ownership, "SETTLES_S", 0.0)
        assert await reason(stage, "bob", edit("src/ann.py")) is None

    async def test_without_a_task_until_the_turn_is_over(self, stage: Stage) -> None:
        dan = await stage.hire("dan")
        beat = Presence.new(agent="dan", state="working", since_ms=0, beat_ms=0, nonce="nonce-dan")
        await stage.team.agents.beat(beat)
        await stage.write("dan", "src/dan.py", b"dan = 1\n")
        assert await reason(stage, "bob", edit("src/dan.py")) == "path_owned"
        await stage.team.agents.beat(beat.evolve(state="idle"))
        assert await reason(stage, "bob", edit("src/dan.py")) is None
        await stage.write("dan", "src/more.py", b"dan = 1\n")
        dan.turn_over()
        # In its next turn it owns only what it writes in that.
        await stage.team.agents.beat(beat)
        await stage.write("dan", "src/next.py", b"dan = 2\n")
        assert await reason(stage, "bob", edit("src/more.py")) is None
        assert await reason(stage, "bob", edit("src/next.py")) == "path_owned"

    async def test_a_call_that_is_only_asked_for_takes_nothing(self, stage: Stage) -> None:
        await stage.team.tasks.release("1", by="ann")
        before = [file.read_bytes() for file in stage.folder.glob("+tree-*.json")]
        await stage.desks["bob"]._gate._tree.check(
            edit("src/ann.py"), (await stage.team.agents.get("bob"))[1], claim=False
        )
        assert [file.read_bytes() for file in stage.folder.glob("+tree-*.json")] == before


class TestWhatIsKept:
    async def test_it_is_kept_once_for_each_state(self, stage: Stage) -> None:
        await with_edits(stage)
        await stage.bash("bob", "python3 -c 1")
        await stage.bash("bob", "python3 -c 2")
        assert len(stage.kept("bob")) == 1
        await stage.write("ann", "src/ann.py", b"ann = 3\n")
        await stage.bash("bob", "python3 -c 3")
        assert len(stage.kept("bob")) == 2
        first, second = (str(row["ref"]) for row in stage.kept("bob"))
        assert first.startswith("refs/bullpen/alpha/+shared/")
        assert stage.shown(f"{first}:src/ann.py") == ANNS["src/ann.py"]
        assert stage.shown(f"{second}:src/ann.py") == b"ann = 3\n"

    async def test_keeping_changes_nothing_in_the_tree(self, stage: Stage) -> None:
        await with_edits(stage)
        index = (stage.top / ".git/index").read_bytes()
        before = git(stage.top, "status", "--porcelain", "--ignored")
        stashes = git(stage.top, "stash", "list")
        index = (stage.top / ".git/index").read_bytes()
        await stage.bash("bob", "python3 -c 1")
        assert len(stage.kept("bob")) == 1
        assert (stage.top / ".git/index").read_bytes() == index
        assert git(stage.top, "status", "--porcelain", "--ignored") == before
        assert git(stage.top, "stash", "list") == stashes

    async def test_ones_own_edits_are_ones_own_business(self, stage: Stage) -> None:
        await stage.write("bob", "src/bob.py", b"bob = 2\n")
        await stage.bash("bob", "python3 -c 1; git stash; git stash pop")
        assert stage.kept("bob") == []

    async def test_edits_of_nobody_known_are_kept_before_they_are_taken(self, stage: Stage) -> None:
        (stage.top / "src/nobody.py").write_bytes(b"the user's\n")
        (stage.top / "odd\nname").write_bytes(b"odd\n")
        (stage.top / '"quoted"').write_bytes(b"quoted\n")
        (stage.top / "link").symlink_to("nowhere")
        assert await stage.tried("bob", "git reset --hard && git clean -fd") == "kept"
        users = {"src/nobody.py": b"the user's\n", "odd\nname": b"odd\n", '"quoted"': b"quoted\n"}
        assert not (stage.top / "odd\nname").exists()
        assert stage.lost(users) == []
        (kept,) = stage.kept("bob")
        assert git(stage.top, "cat-file", "blob", f"{kept['ref']}:link") == "nowhere"

    async def test_edits_of_one_that_has_ended_are_kept_and_can_be_committed(
        self, stage: Stage
    ) -> None:
        await stage.hire("dan")
        await with_edits(stage)
        await stage.team.agents.end("ann", "finished", by=LEAD, nonce="nonce-ann", cause="done")
        assert await stage.tried("bob", "git add src/ann.py") == "runs"
        assert await stage.tried("bob", "git reset --hard") == "kept"
        assert stage.lost({"src/ann.py": ANNS["src/ann.py"]}) == []

    async def test_edits_that_one_wrote_upon_are_kept_before_they_go(self, stage: Stage) -> None:
        await stage.write("ann", "src/nobody.py", b"ann's\n")
        await stage.team.tasks.release("1", by="ann")
        await stage.write("bob", "src/nobody.py", b"ann's and bob's\n")
        assert await stage.tried("bob", "git restore src/nobody.py") == "kept"
        assert stage.lost({"src/nobody.py": b"ann's and bob's\n"}) == []
        # Once that is committed, or undone, bob's edits are bob's alone.
        await stage.write("bob", "src/nobody.py", b"bob's\n")
        assert await stage.tried("bob", "git restore src/nobody.py") == "runs"

    async def test_what_one_wrote_who_was_alone_is_known_when_another_comes(
        self, stage: Stage
    ) -> None:
        await stage.team.agents.end("bob", "stopped", by=LEAD, nonce="nonce-bob", cause="test")
        await with_edits_of_ann(stage)
        await stage.hire("dan")
        assert await stage.tried("dan", "git checkout -- .") == "others_edits"
        assert await reason(stage, "dan", edit("src/ann.py")) == "path_owned"

    async def test_what_is_too_big_to_be_kept_is_refused(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await with_edits(stage)
        monkeypatch.setattr(edits, "BYTES_MAX", 10)
        assert await stage.tried("bob", "sh wipe.sh") == "too_big"
        assert stage.lost(ANNS) == []

    async def test_other_tools_that_run_anything_are_taken_for_scripts(self, stage: Stage) -> None:
        await with_edits(stage)
        await stage.desks["bob"].permit(Call("mcp__git__reset", {"mode": "hard"}, "run"))
        assert len(stage.kept("bob")) == 1

    async def test_after_the_other_has_committed_everything_is_allowed(self, stage: Stage) -> None:
        await with_edits(stage)
        assert await stage.tried("bob", "git stash -u") == "others_edits"
        await stage.bash("ann", "git add src/ann.py 'src/new by ann.py' docs && rm ann.log")
        await stage.bash("ann", "git commit -qm anns -- src/ann.py 'src/new by ann.py' docs")
        await stage.team.tasks.done("1", by="ann")
        assert await stage.tried("bob", "git stash -u") == "runs"

    async def test_the_refusal_names_the_paths_whose_they_are_and_what_to_do(
        self, stage: Stage
    ) -> None:
        await with_edits(stage)
        with pytest.raises(Refused) as refused:
            await stage.bash("bob", "git checkout -- .")
        text = str(refused.value)
        assert "`git checkout -- .` would remove uncommitted edits of ann in the checkout" in text
        assert "docs/ann.md (ann), src/ann.py (ann)" in text
        assert "git restore YOUR_FILE" in text


async def with_edits_of_ann(stage: Stage) -> None:
    await stage.bash("ann", "printf 'ann = 2' > src/ann.py")


PLAY = """
[[agents.ann.turns]]
when = "start"
steps = [
  { tool = "Bash", input = { command = "printf 'ann = 2' > src/ann.py" } },
  { tool = "Bash", input = { command = "sleep 600" } },
]
[[agents.bob.turns]]
when = "start"
steps = [
  { tool = "Bash", input = { command = "git checkout -- ." }, may_fail = true },
  { tool = "Write", input = { file_path = "src/ann.py", content = "bob" }, may_fail = true },
  { tool = "Bash", input = { command = "sh wipe.sh" } },
]
"""


async def test_r_8c_holds_for_agents_in_processes_of_their_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real agents: what one refuses the other is in its transcript, and nothing is lost."""
    only_these_settings(monkeypatch, place.folder)
    make_repository(
        place.project / "repository",
        {"src/ann.py": "ann = 1\n", "wipe.sh": "git reset -q --hard\n"},
    )
    top = place.project / "repository"

    async def spawn(name: str) -> None:
        spec = await place.app.resolve(
            SpawnRequest(
                cwd=str(top),
                driver="scripted",
                backend="subprocess",
                mode="bypassPermissions",
                script=place.script(PLAY),
                prompt="Begin",
            )
        )
        await place.supervisor.spawn(name, spec, by=LEAD, ready_s=60)

    await spawn("ann")
    await eventually(lambda: (top / "src/ann.py").read_text("utf-8") == "ann = 2")
    await spawn("bob")
    transcript = await place.supervisor.transcript("bob")
    await eventually(lambda: any(row["kind"] == "end" for row in rows(transcript)))
    said = list(rows(transcript))
    reasons = [row["why"] for row in said if row["kind"] == "denied"]
    assert "would remove uncommitted edits of ann" in reasons[0]
    assert "ann is working on src/ann.py" in reasons[1]
    (kept,) = [row for row in said if row["kind"] == "kept"]
    assert (top / "src/ann.py").read_text("utf-8") == "ann = 1\n"
    assert git(top, "cat-file", "blob", f"{kept['ref']}:src/ann.py") == "ann = 2"
