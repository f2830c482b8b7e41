"""Whatever is delivered when and whenever the worker is killed: nothing twice, nothing lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import anyio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bullpen.protocol.names import LEAD
from bullpen.team.forge.heard_words import mentions_team
from bullpen.team.forge.way_back import Seen
from bullpen.team.team import Team

from .forge_teams import (
    ACCOUNT,
    ANN,
    EVE,
    NOW_MS,
    SETTINGS,
    draft,
    forge_of,
    hand_in,
    mail_of,
    review,
    team_on_forge,
    thread,
    verdict,
)
from .simulated_forge import Killed, SimulatedForge, Worker

Step: TypeAlias = tuple[str, int, int]

KINDS = (
    "worker", "worker", "worker", "owner", "owner", "thread", "thread", "more", "mention",
    "mention", "stranger", "red", "red", "green", "request", "approve", "resolve", "others push",
    "close issue", "merge by hand", "resume",
)  # fmt: skip

STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 14)), max_size=40
)


class History:
    """One team, its forge, and what happens to them."""

    def __init__(self, team: Team, forge: SimulatedForge) -> None:
        self.team, self.forge = team, forge
        self.commits = 0
        self.now_ms = NOW_MS

    async def step(self, kind: str, which: int, fuel: int) -> None:
        forge = self.forge
        forge.now()
        if kind == "worker":
            # The newest picture, or any older one, again or for the first time.
            seen = forge.pictures[-1 - min(which * which, len(forge.pictures) - 1)]
            if which % 2:
                # Each list comes with a request of its own: some are older than others.
                seen = replace(forge.now(), threads=seen.threads, comments=seen.comments)
            await self.work(seen if which else forge.now(), None if fuel == 14 else fuel)
        elif kind == "owner":
            await self.own()
        elif kind == "resume":
            if forge_of(await self.team.tasks.get("1")).outcome is None:
                await self.team.forge.resume("1", by=LEAD, voice="human")
        elif forge.pull is not None and forge.pull.is_open:
            self.happen(kind, which)
        forge.now()

    def happen(self, kind: str, which: int) -> None:
        forge = self.forge
        shown = forge.pull
        assert shown is not None
        place = which % len(forge.threads) if forge.threads else None
        match kind:
            case "thread":
                name = f"t{forge.number()}"
                said = forge.say(forge.token(name))
                forge.threads.append(thread(name, said))
            case "more" if place is not None:
                held = forge.threads[place]
                said = forge.say(forge.token(held.id))
                forge.threads[place] = replace(
                    held, resolved=False, comments=(*held.comments, said)
                )
            case "resolve" if place is not None:
                forge.threads[place] = replace(forge.threads[place], resolved=True)
            case "mention":
                forge.comments.append(forge.say(f"@bullpen {forge.token('mention')}"))
            case "stranger":
                forge.comments.append(forge.say("@bullpen evil-word", EVE))
                forge.threads.append(thread(f"e{forge.number()}", forge.say("evil-word", EVE)))
            case "red" | "green":
                job, head = f"job{which % 2}", shown.head
                state = "failure" if kind == "red" else "success"
                cause = f"{job} {head}"
                tail = next((t for t, c in forge.tokens.items() if c == cause), None)
                if state == "failure" and tail is None:
                    tail = forge.token(cause)
                others = [v for v in forge.verdicts if (v.name, v.commit) != (job, head)]
                forge.verdicts = [*others, verdict(job, state, head, tail)]  # type: ignore[arg-type]
            case "request":
                forge.reviews.append(
                    review(forge.number()[-2:], "changes_requested", forge.token("request"))
                )
            case "approve":
                forge.reviews.append(review(forge.number()[-2:], "approved"))
            case "others push" if which == 0:
                forge.head = "f" * 40
                forge.change_pull(head=forge.head)
            case "close issue" if which == 0:
                forge.issue_open = False
            case "merge by hand" if which == 0:
                forge.change_pull(merged=True, is_open=False, merge_commit="d" * 40)

    async def own(self) -> None:
        """The owner does what it was told, and hands in another commit."""
        task = await self.team.tasks.get("1")
        if task.status != "completed" and task.facts.given_up is None:
            self.commits += 1
            await hand_in(self.team, "1", f"{self.commits:040x}", report="Done.")

    async def work(self, seen: Seen, fuel: int | None) -> None:
        self.now_ms += 1_000
        worker = Worker(self.team, self.forge, self.now_ms, fuel)
        try:
            await worker.look(seen)
        except Killed:
            return

    async def settle(self) -> None:
        """Nothing new happens any more; everybody does what is left."""
        still, before = 0, -1
        for _ in range(60):
            # Stale lists are over by then, and CI had its time.
            self.now_ms += 100_000
            await self.work(self.forge.now(), None)
            await self.own()
            after = await self.team.last_seq()
            still, before = (still + 1 if after == before else 0), after
            if still == 3:
                return
        raise AssertionError("it never comes to rest")


async def played(steps: Sequence[Step]) -> None:
    team = await team_on_forge(clock=lambda: NOW_MS)
    await team.forge.take([draft(7)])
    history = History(team, SimulatedForge())
    for kind, which, fuel in steps:
        await history.step(kind, which, fuel)
        nothing_twice(history.forge)
    await history.settle()
    nothing_twice(history.forge)
    await nothing_lost(history)


def nothing_twice(forge: SimulatedForge) -> None:
    assert len(forge.pulls) <= 1
    assert forge.closings <= 1
    assert sum(each.author.login == ACCOUNT for each in forge.on_issue) <= 1
    bodies = [each.body for each in forge.comments if each.author.login == ACCOUNT]
    for each in forge.threads:
        mine = [said.body for said in each.comments if said.author.login == ACCOUNT]
        theirs = [said for said in each.comments if said.author == ANN]
        # An answer for each word at most: those that came back together have one.
        assert len(mine) <= len(theirs)
        bodies += mine
    assert max(Counter(bodies).values(), default=0) <= 1
    asked = [each for each in forge.comments if each.author == ANN]
    reviews = [each for each in forge.reviews if each.state == "changes_requested"]
    answers = [each for each in forge.comments if each.author.login == ACCOUNT]
    assert len(answers) <= len(asked) + len(reviews)


async def nothing_lost(history: History) -> None:
    forge, team = history.forge, history.team
    told = "\n".join(await mail_of(team, "bob"))
    assert "evil-word" not in told
    for token in forge.tokens:
        assert told.count(token) <= 1, token
    work = forge_of(await team.tasks.get("1"))
    if work.outcome is not None or work.person is not None:
        return
    shown = forge.pull
    assert shown is not None
    wanted = [v.tail for v in forge.verdicts if v.commit == shown.head and v.state == "failure"]
    wanted += [
        said.body for one in forge.threads if not one.resolved
        for said in one.comments if said.author == ANN
    ]  # fmt: skip
    wanted += [
        each.body for each in forge.comments
        if each.author == ANN and mentions_team(each.body, ACCOUNT)
    ]  # fmt: skip
    for text in wanted:
        assert text is not None
        assert told.count(text.removeprefix("@bullpen ")) == 1, text


FIRST: list[Step] = [("owner", 0, 0), ("worker", 0, 14)]


@settings(max_examples=150, deadline=None)
@example([*FIRST, ("thread", 0, 0), ("worker", 0, 2), ("worker", 2, 14), ("owner", 0, 0)])
@example([*FIRST, ("red", 0, 0), ("worker", 0, 14), ("owner", 0, 0), ("worker", 3, 14)])
@example([("owner", 0, 0), *(("worker", 0, n) for n in range(14)), ("mention", 0, 0)])
@example([*FIRST, ("mention", 0, 0), ("others push", 0, 0), ("worker", 0, 14), ("resume", 0, 0)])
@example(
    [*FIRST, ("thread", 0, 0), ("more", 0, 0), ("worker", 0, 14), ("owner", 0, 0),
     ("worker", 0, 5), ("worker", 3, 14), ("worker", 5, 14), ("worker", 1, 14)]
)  # fmt: skip
@example([*FIRST, ("close issue", 0, 0), *(("worker", 0, n) for n in range(14))])
@given(STEPS.map(lambda steps: [*FIRST, *steps]))
def test_no_interleaving_writes_anything_twice_or_loses_a_word(steps: list[Step]) -> None:
    anyio.run(played, steps)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_worker_that_is_killed_before_the_first_push_loses_nothing(steps: list[Step]) -> None:
    anyio.run(played, [("owner", 0, 0), *steps])


def test_the_rounds_of_the_simulation_are_those_of_the_team() -> None:
    assert SETTINGS.rounds == 2
