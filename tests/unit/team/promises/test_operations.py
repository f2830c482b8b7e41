"""Promises in the records: who may make them, which are refused, and who is woken."""

from __future__ import annotations

import anyio
import pytest

from bullpen.agents.mail.promised import promise_lines
from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.record.promise import Promise, Reliance
from bullpen.protocol.task import Task
from bullpen.store.contract import Store
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.team.promises import rules
from bullpen.team.promises.at_merge import Promised
from bullpen.team.promises.concerns import concerning
from bullpen.team.promises.rules import PromiseDraft, in_force
from bullpen.team.team import Team, Teams

NAMES = ("alice", "bob", "carol")


def paths(pattern: str) -> PromiseDraft:
    return PromiseDraft(f"only I edit {pattern}", "path", path=pattern)


def signature(text: str, file: str = "app.py") -> PromiseDraft:
    return PromiseDraft(f"it has {text}", "signature", path=file, signature=text)


@pytest.fixture
async def crew(team: Team) -> Team:
    """Alice, bob and carol, each with a task of its own: 1, 2 and 3."""
    await _tasks(team)
    return team


async def _tasks(team: Team) -> None:
    if (await team.agents.config()).member("carol") is None:
        await team.roster.join("carol", by=LEAD)
    for name in NAMES:
        await team.tasks.add(f"work of {name}", by=LEAD)
    for number, name in enumerate(NAMES, 1):
        await team.tasks.claim(str(number), by=name)


async def _mail(team: Team) -> dict[str, list[str]]:
    boxes = {name: await team.mailbox.read(name) for name in (LEAD, *NAMES)}
    return {
        name: [e.message.text for e in box.entries] for name, box in boxes.items() if box.entries
    }


async def test_a_promise_has_an_id_of_its_task_and_stands(crew: Team) -> None:
    first = await crew.promises.make("1", signature("parse(text)"), by="alice")
    second = await crew.promises.make("1", paths("app.py"), by="alice")
    assert (first.id, second.id) == ("1.1", "1.2")
    assert [each.promise.id for each in await crew.promises.all()] == ["1.1", "1.2"]


async def test_overlapping_paths_of_another_member_are_refused_with_its_name(crew: Team) -> None:
    await crew.promises.make("1", paths("src/"), by="alice")
    with pytest.raises(Refused) as refused:
        await crew.promises.make("2", paths("src/routes.py"), by="bob")
    assert refused.value.reason == "promise_conflict"
    assert "alice" in refused.value.message
    assert "alice" in refused.value.remedy
    await crew.promises.make("2", paths("docs/"), by="bob")


async def test_an_owner_makes_room_by_a_narrower_promise_or_by_withdrawing_it(crew: Team) -> None:
    made = await crew.promises.make("1", paths("src/"), by="alice")
    await crew.promises.change(made.id, paths("src/app.py"), by="alice")
    await crew.promises.make("2", paths("src/routes.py"), by="bob")
    await crew.promises.withdraw(made.id, by="alice", reason="done with it")
    await crew.promises.make("3", paths("src/app.py"), by="carol")


async def test_contradictory_signatures_of_one_name_are_refused(crew: Team) -> None:
    await crew.promises.make("1", signature("parse(text, strict=False)"), by="alice")
    with pytest.raises(Refused, match=r"1\.1"):
        await crew.promises.make("2", signature("parse(text, mode='x')"), by="bob")
    await crew.promises.make("2", signature("parse(text, strict=False)"), by="bob")
    await crew.promises.make("2", signature("other(text)"), by="bob")
    await crew.promises.make("2", signature("parse(text)", "other.py"), by="bob")


@pytest.mark.parametrize("kind", ["memory", "files"])
async def test_of_two_that_promise_at_once_exactly_one_succeeds(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("home")
    store: Store = MemoryStore() if kind == "memory" else FileStore(folder)
    others: Store = store if kind == "memory" else FileStore(folder)
    teams = Teams(store)
    await teams.create("crew")
    team, again = teams.open("crew"), Teams(others).open("crew")
    for name in NAMES[:2]:
        await team.roster.join(name, by=LEAD)
    await _tasks(team)
    made: list[Promise | Refused] = []

    async def promise(door: Team, task: str, by: str) -> None:
        try:
            made.append(await door.promises.make(task, paths("src/**"), by=by))
        except Refused as refused:
            made.append(refused)

    async with anyio.create_task_group() as group:
        group.start_soon(promise, team, "1", "alice")
        group.start_soon(promise, again, "2", "bob")
    assert sorted(type(each).__name__ for each in made) == ["Promise", "Refused"]
    assert len(await team.promises.all()) == 1


async def test_only_the_owner_of_a_task_or_the_lead_promises_with_it(crew: Team) -> None:
    with pytest.raises(Refused) as refused:
        await crew.promises.make("1", paths("a.py"), by="bob")
    assert refused.value.reason == "not_owner"
    made = await crew.promises.make("1", paths("a.py"), by="alice")
    with pytest.raises(Refused):
        await crew.promises.withdraw(made.id, by="bob", reason="")
    await crew.promises.withdraw(made.id, by=LEAD, reason="")


async def test_a_change_wakes_exactly_those_who_rely_on_it(crew: Team) -> None:
    made = await crew.promises.make("1", signature("parse(text)"), by="alice")
    await crew.promises.rely(made.id, "2", by="bob")
    await crew.promises.change(made.id, signature("parse(text, strict)"), by="alice")
    mail = await _mail(crew)
    assert list(mail) == ["bob"]
    assert "parse(text, strict)" in mail["bob"][0]
    assert "#2" in mail["bob"][0]


async def test_a_withdrawn_promise_stops_the_work_that_relies_on_it(crew: Team) -> None:
    made = await crew.promises.make("1", signature("parse(text)"), by="alice")
    await crew.promises.rely(made.id, "2", by="bob")
    await crew.promises.withdraw(made.id, by="alice", reason="no parser after all")
    promised = await crew.promises.promised()
    assert "no parser after all" in (promised.refusal(promised.tasks["2"], []) or "")
    assert promised.refusal(promised.tasks["3"], []) is None
    assert list(await _mail(crew)) == ["bob"]
    await crew.promises.drop(made.id, "2", by="bob")
    promised = await crew.promises.promised()
    assert promised.refusal(promised.tasks["2"], []) is None


async def test_a_changed_promise_has_to_be_relied_on_anew(crew: Team) -> None:
    made = await crew.promises.make("1", signature("parse(text)"), by="alice")
    await crew.promises.rely(made.id, "2", by="bob")
    await crew.promises.change(made.id, signature("parse(text, strict)"), by="alice")
    promised = await crew.promises.promised()
    assert "changed" in (promised.refusal(promised.tasks["2"], []) or "")
    await crew.promises.rely(made.id, "2", by="bob")
    promised = await crew.promises.promised()
    assert promised.refusal(promised.tasks["2"], []) is None


@pytest.mark.parametrize("end", ["give_up", "delete"])
async def test_promises_end_with_their_task_and_those_who_rely_are_told(
    crew: Team, end: str
) -> None:
    made = await crew.promises.make("1", signature("parse(text)"), by="alice")
    await crew.promises.rely(made.id, "2", by="bob")
    if end == "give_up":
        await crew.tasks.give_up("1", by=LEAD, reason="too hard")
    else:
        await crew.tasks.delete("1", by=LEAD, voice="human")
    mail = await _mail(crew)
    assert list(mail) == ["bob"]
    assert "was given up" in mail["bob"][0]
    assert await crew.promises.all() == []


async def test_a_promise_that_was_found_broken_is_told_once_until_it_holds_again(
    crew: Team,
) -> None:
    made = await crew.promises.make("1", signature("parse(text)"), by="alice")
    await crew.promises.rely(made.id, "2", by="bob")
    for found in ({made.id: "it has parse()"}, {made.id: "it has parse()"}, {}, {made.id: "no"}):
        await crew.promises.judge("1", found, by="alice")
    assert [len(each) for each in (await _mail(crew)).values()] == [2]


async def test_two_tasks_cannot_wait_for_each_other(crew: Team) -> None:
    first = await crew.promises.make("1", signature("parse(text)"), by="alice")
    second = await crew.promises.make("2", signature("show(tree)"), by="bob")
    await crew.promises.rely(first.id, "2", by="bob")
    with pytest.raises(Refused) as refused:
        await crew.promises.rely(second.id, "1", by="alice")
    assert refused.value.reason == "promise_cycle"


async def test_work_that_builds_on_promised_work_comes_after_it(crew: Team) -> None:
    made = await crew.promises.make("2", signature("parse(text)"), by="bob")
    await crew.promises.rely(made.id, "1", by="alice")
    promised = await crew.promises.promised()
    one, two, three = (promised.tasks[each] for each in "123")
    assert [task.id for task in promised.in_order([one, two, three])[0]] == ["2", "1", "3"]
    ready, held = promised.in_order([one, three])
    assert [task.id for task in ready] == ["3"]
    assert held
    assert "#2" in held[0]


async def test_a_member_is_shown_only_what_concerns_its_files(crew: Team) -> None:
    await crew.promises.make("1", paths("src/"), by="alice")
    await crew.promises.make("2", paths("docs/"), by="bob")
    await crew.tasks.edit("3", by=LEAD, description="Fix the bug in src/app.py, please.")
    state = (await crew.promises.promised()).tasks
    standing = in_force(state, "crew")
    assert [each.promise.id for each in concerning(state["3"], standing, "crew")] == ["1.1"]
    assert concerning(state["1"], standing, "crew") == []


def test_many_tasks_are_looked_at_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every agent asks for what concerns its tasks, before each of its turns."""
    tasks: dict[str, Task] = {}
    for number in range(1, 301):
        task = Task.new(id=str(number), subject="Part", description="", owner="ann")
        promise = Promise.new(
            id=f"{number}.1", by="bob", text="Mine", kind="path", at_ms=1, path=f"part{number}.py"
        )
        relies = Reliance.new(promise="1.1", version=1, by="ann", at_ms=1)
        tasks[task.id] = task.with_facts(promises=[promise.raw], relies=[relies.raw])
    looks, is_there = 0, rules._states

    def counting(task: Task, key: str) -> bool:
        nonlocal looks
        looks += 1
        return is_there(task, key)

    monkeypatch.setattr(rules, "_states", counting)
    assert promise_lines(tasks, tasks.values(), "crew") == {}, "all are of ann herself"
    assert len(in_force(tasks, "crew")[0].relied_by) == 300
    assert looks == 2 * 2 * len(tasks), "once for promises and once for reliances, each time"


async def test_a_promise_that_nothing_proves_is_refused(crew: Team) -> None:
    for draft in (
        PromiseDraft("nice code", "command"),
        PromiseDraft("", "path", path="a.py"),
        PromiseDraft("it has f()", "signature", signature="f()"),
        PromiseDraft("it has f()", "signature", path="*.py", signature="f()"),
        PromiseDraft("two proofs", "path", path="a.py", run="true"),
    ):
        with pytest.raises(Invalid):
            await crew.promises.make("1", draft, by="alice")
    with pytest.raises(NotFound):
        await crew.promises.rely("1.9", "2", by="bob")


async def test_damaged_promises_are_not_taken_for_none(crew: Team) -> None:
    await crew.promises.make("1", paths("src/"), by="alice")
    state = (await crew.promises.promised()).tasks
    damaged = state["1"].with_facts(promises=None).raw
    damaged["metadata"]["bullpen"]["promises"] = [{"id": 7}]
    task = type(state["1"]).parse(damaged)
    found = Promised("crew", {**state, "1": task}).refusal(task, [])
    assert "Cannot read" in (found or "")
