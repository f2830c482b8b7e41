"""R-8a: whoever asked for a tree of its own is in it with shell and file tools, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import anyio
import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.supervisor.start import Spawned
from bullpen.errors import Refused, StartFailed, Unavailable
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from bullpen.sandbox.command import check_sandbox
from bullpen.testing.models import MockModels, ModelRequest, Reply
from support.crews import eventually
from support.git.repositories import commit, git
from support.offices import TEAM, Place, needs_tmux, opened

from .groves import branches, names, plant, tree_of, wish

BACKENDS = ["in-process", "subprocess", pytest.param("tmux", marks=needs_tmux)]
AGENT = str(Path(__file__).parent / "tree_agent.py")

LOOKS = "git rev-parse --show-toplevel > top; pwd > here; printenv TMPDIR BULLPEN_PORT > own"
# Whatever it would ask is denied: nobody is there.
ALONE = Policy.new(allow=["Bash"], approver="policy")


def _sandbox_is_here() -> bool:
    try:
        check_sandbox()
    except Unavailable:
        return False
    return True


needs_sandbox = pytest.mark.skipif(not _sandbox_is_here(), reason="needs bubblewrap")


def script(name: str, users_file: Path) -> str:
    return f"""
[[agents.{name}.turns]]
when = "start"
steps = [
  {{tool = "Bash", input = {{command = "{LOOKS}"}}}},
  {{tool = "Write", input = {{file_path = "written", content = "by {name}"}}}},
  {{tool = "Write", input = {{file_path = "{users_file}", content = "x"}}, may_fail = true}},
  {{tool = "Write", input = {{file_path = "done", content = ""}}}},
]
"""


async def test_r_8a_shell_file_tools_and_process_are_in_the_assigned_tree(
    place: Place, subtests: pytest.Subtests
) -> None:
    users = place.project / "a.txt"
    places: dict[str, list[str]] = {}
    for backend in ("in-process", "subprocess", "tmux"):
        if backend == "tmux" and shutil.which("tmux") is None:
            continue
        with subtests.test(backend=backend):
            name = backend.replace("-", "")
            tree = tree_of(place, name)
            spawned = await plant(
                place, name, script(name, users), backend=backend, mode="acceptEdits",
                policy=ALONE, prompt="Begin",
            )  # fmt: skip
            assert spawned.tree == str(tree)
            await eventually((tree / "done").exists, within_s=60)
            assert (tree / "top").read_text().strip() == str(tree)
            assert (tree / "here").read_text().strip() == str(tree)
            assert (tree / "written").read_text() == f"by {name}"
            places[name] = (tree / "own").read_text().split()
            member, agent = await place.team.agents.get(name)
            assert (member.worktree_path, member.cwd, agent.spec.cwd) == (str(tree),) * 3
            if agent.process is not None and agent.process.group is not None:
                assert os.readlink(f"/proc/{agent.process.pid}/cwd") == str(tree)
    assert users.read_text() == "one\n"
    assert sorted(each.name for each in place.project.iterdir()) == [".git", "a.txt", "sub"]
    # Each has a folder for temporary files and ports of its own, in one process too.
    assert len({tuple(each) for each in places.values()}) == len(places)
    assert all(len(set(column)) == len(places) for column in zip(*places.values(), strict=True))


async def test_r_8a_a_native_agent_is_in_the_assigned_tree(tmp_path: Path) -> None:
    users = tmp_path / "project" / "a.txt"
    steps = [
        Reply.call("Bash", command=LOOKS),
        Reply.call("Write", file_path="written", content="mine"),
        Reply.call("Write", file_path=str(users), content="x"),
        Reply.call("Write", file_path="done", content=""),
        Reply("Done."),
    ]

    def brain(request: ModelRequest) -> Reply:
        return steps.pop(0) if steps else Reply("")

    with MockModels(brain) as mock:
        async with opened(tmp_path, **mock.env) as place:
            git(place.project, "init", "--quiet", "--initial-branch=main")
            commit(place.project, {"a.txt": "one\n"})
            await plant(
                place, "nat", driver="native", model="anthropic:claude-mock-1", script=None,
                mode="acceptEdits", policy=ALONE, prompt="Begin",
            )  # fmt: skip
            tree = tree_of(place, "nat")
            await eventually((tree / "done").exists, within_s=60)
    assert (tree / "top").read_text().strip() == str(tree)
    assert (tree / "here").read_text().strip() == str(tree)
    assert (tree / "written").read_text() == "mine"
    assert users.read_text() == "one\n"


async def test_r_8a_a_program_of_another_vendor_is_in_the_assigned_tree(place: Place) -> None:
    users = place.project / "a.txt"
    tree = tree_of(place, "vee")
    await plant(
        place, "vee", driver="acp", script=None, mode="acceptEdits", policy=ALONE, prompt="Begin",
        command=(sys.executable, AGENT, "looks", str(users)),
    )  # fmt: skip
    await eventually((tree / "mine.txt").exists, within_s=60)
    rows = [json.loads(row) for row in (tree / "told.jsonl").read_text().splitlines()]
    told = {row["what"]: row for row in rows}
    assert told["new"]["cwd"] == str(tree)
    assert (told["place"]["top"], told["place"]["here"]) == (str(tree), str(tree))
    assert users.read_text() == "one\n"
    answers = [row["option"] for row in rows if row["what"] == "answer"]
    assert answers == ["reject_once", "allow_once"]


async def test_r_8a_below_the_top_it_works_where_its_user_is(place: Place) -> None:
    tree = tree_of(place, "ann")
    spec = await place.app.resolve(
        SpawnRequest(
            driver="scripted",
            backend="in-process",
            cwd=str(place.project / "sub"),
            script=place.script("[agents.ann]\n"),
            mode="bypassPermissions",
            workspace=wish("ann"),
        )
    )
    assert spec.cwd == str(tree / "sub")
    assert not tree.exists()
    await place.supervisor.spawn("ann", spec, by=LEAD, ready_s=60)
    assert (tree / "sub" / "b.txt").read_text() == "b\n"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_r_8a_a_tree_that_is_not_to_be_had_is_a_failed_spawn(
    place: Place, backend: str
) -> None:
    tree_of(place, "ann").mkdir(parents=True)
    (tree_of(place, "ann") / "somebodys.txt").write_text("mine")
    with pytest.raises(StartFailed) as failed:
        await plant(place, "ann", backend=backend)
    assert "ann" in failed.value.message
    assert await names(place) == [LEAD]
    assert place.processes() == []
    assert (tree_of(place, "ann") / "somebodys.txt").read_text() == "mine"
    assert branches(place) == ["main"]


@pytest.mark.parametrize("backend", ["in-process", "subprocess"])
async def test_r_8a_a_failed_set_up_is_a_failed_spawn(place: Place, backend: str) -> None:
    with pytest.raises(StartFailed, match="no such tool"):
        await plant(
            place, "ann", backend=backend, workspace=wish("ann", setup="echo no such tool; exit 3")
        )
    assert await names(place) == [LEAD]
    assert place.processes() == []


async def test_r_8a_where_there_is_no_repository_nothing_is_spawned(tmp_path: Path) -> None:
    async with opened(tmp_path, HOME=str(tmp_path)) as place:
        with pytest.raises(Refused) as refused:
            await plant(place, "ann")
        assert refused.value.reason == "no_repository"
        assert await names(place) == [LEAD]


async def test_r_8a_changes_that_it_would_not_see_are_no_start(place: Place) -> None:
    (place.project / "a.txt").write_text("two\n")
    with pytest.raises(Refused) as refused:
        await plant(place, "ann")
    assert refused.value.reason == "dirty_start"
    await plant(place, "ann", workspace=wish("ann", dirty="leave"), backend="in-process")
    assert (tree_of(place, "ann") / "a.txt").read_text() == "one\n"
    assert (place.project / "a.txt").read_text() == "two\n"


async def test_r_8a_many_calls_with_one_key_make_one_tree_and_one_agent(place: Place) -> None:
    spec = await place.spec(
        "[agents.ann]\n", workspace=wish("ann", setup="sleep 1; echo >> set-up")
    )
    made: list[Spawned] = []

    async def spawn() -> None:
        made.append(await place.supervisor.spawn("ann", spec, by=LEAD, key="one", ready_s=60))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(spawn)
    assert sorted(each.fresh for each in made) == [False, False, False, True]
    assert (tree_of(place, "ann") / "set-up").read_text() == "\n"
    assert len(place.processes()) == 1


@needs_sandbox
async def test_r_8a_closed_in_it_commits_in_its_tree_and_changes_nothing_else(
    place: Place,
) -> None:
    tree, users = tree_of(place, "ann"), place.project
    commands = [
        "git rev-parse --show-toplevel > top",
        "git add top && git -c user.name=a -c user.email=a@b commit -qm mine",
        # The gate asks about a plain path in the user's checkout; the sandbox needs no words.
        *(
            f"cp top ../../../$(echo {users.name[:3]}){users.name[3:]}/{each}"
            for each in ("a.txt", ".git/hooks/post-commit", ".git/config")
        ),
        "printenv TMPDIR > temp; touch $TMPDIR/there",
        "echo > done",
    ]
    steps = "".join(
        f"  {{tool = 'Bash', input = {{command = '{each}'}}, may_fail = true}},\n"
        for each in commands
    )
    config = (users / ".git" / "config").read_text()
    await plant(
        place, "ann", f"[[agents.ann.turns]]\nwhen = 'start'\nsteps = [\n{steps}]\n",
        mode="bypassPermissions", policy=Policy.new(sandbox={}), prompt="Begin",
    )  # fmt: skip
    await eventually((tree / "done").exists, within_s=60)
    assert (tree / "top").read_text().strip() == str(tree)
    assert git(users, "log", "-1", "--format=%s", f"bullpen/{TEAM}/ann") == "mine"
    assert (users / "a.txt").read_text() == "one\n"
    assert not (users / ".git" / "hooks" / "post-commit").exists()
    assert (users / ".git" / "config").read_text() == config
    assert (tree / "temp").read_text().strip() == "/tmp"


async def test_r_8a_stopping_leaves_the_tree_as_it_is(place: Place) -> None:
    tree = tree_of(place, "ann")
    await plant(place, "ann", backend="in-process")
    (tree / "new.txt").write_text("kept")
    await place.supervisor.stop("ann", by=LEAD)
    assert (tree / "new.txt").read_text() == "kept"
    assert branches(place) == [f"bullpen/{TEAM}/ann", "main"]
    await place.supervisor.resume(by=LEAD, names=["ann"])
    assert (tree / "new.txt").read_text() == "kept"
