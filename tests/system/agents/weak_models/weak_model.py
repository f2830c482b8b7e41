"""A model that works badly: it never claims, forgets, ignores errors and answers late.

What it does next is drawn by seed, agent and number of the answer, so one seed is one history as
far as the team's timing allows.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bullpen.protocol.names import LEAD
from bullpen.testing.models import Call, Fault, ModelRequest, Reply

_OWN = re.compile(r"claimed task: #(\d+)|Task #(\d+)[^.\n]* is still yours")
_LISTED = re.compile(r"^- #(\d+) (.*) \(", re.MULTILINE)
_SHOWN_CALL = re.compile(r'TaskUpdate with (\{"taskId": "\d+", "status": "completed"\})')
_GIVEN_BACK = re.compile(r"gave (?:the )?task #(\d+) back|refused to complete task #(\d+)")
_OPEN = re.compile(r"these tasks are open: ((?:#\d+(?:, )?)+)")
_PLAN = re.compile(r"\bplan request (\S+) from|plan_approval-\d+@[\w.-]+@[\w-]+")

FORGETS = 0.3
"""How often even the lead does nothing but talk."""


@dataclass
class Scenario:
    """What a team is asked to do: its tasks, and who is started for them."""

    name: str
    # The tasks: subject and description, and the member that should do it.
    tasks: Mapping[str, str]
    # How members are started besides their name.
    spawn: Mapping[str, Mapping[str, Any]]
    # Which member writes to which.
    peers: Mapping[str, str] = field(default_factory=dict)
    # How many plans the lead rejects.
    rejected: int = 0
    delegate: bool = False
    hooks: Mapping[str, Any] = field(default_factory=dict)


def report_of(agent: str) -> str:
    """The words by which a member's report is known."""
    return f"This is what {agent} found"


class WeakModel:
    """The models of one team."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self._seed = seed
        self._lock = threading.Lock()
        self._steps: dict[str, list[Reply]] = {}
        self._answers: Counter[str] = Counter()
        self._assigned: Counter[str] = Counter()
        self._plans_answered: list[str] = []
        self.plans: Counter[str] = Counter()

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        agent = request.agent
        assert agent is not None, request.system
        with self._lock:
            self._answers[agent] += 1
            dice = random.Random(f"{self._seed}/{agent}/{self._answers[agent]}")
            late_s = dice.choice((0.0, 0.0, 0.02, 0.1))
            in_turn = bool(request.turns and request.turns[-1].results)
            steps = self._steps.get(agent, []) if in_turn else []
            if not in_turn:
                act = self._lead if agent == LEAD else self._mate
                steps = act(agent, request, dice)
            self._steps[agent] = steps[1:]
            reply = steps[0] if steps else Reply("")
        return Reply(reply.text, reply.calls, delay_s=late_s)

    def _mate(self, agent: str, request: ModelRequest, dice: random.Random) -> list[Reply]:
        said = request.given
        report = Reply(f"{report_of(agent)}: nothing bad.")
        if "Say in a few sentences" in said:
            return [report]
        mode = self.scenario.spawn[agent].get("mode")
        if mode == "plan" and "Your mode is" not in request.text:
            return self._plan(agent, said, dice)
        shown = _SHOWN_CALL.search(said)
        if shown and dice.random() < 0.5:
            # It copies what it is shown.
            return [Reply("", (Call("TaskUpdate", json.loads(shown[1])),)), report]
        number = self._number(agent, said)
        if shown and dice.random() < 0.3:
            return [Reply(f"Task #{number} completed")]
        if number is None:
            return [Reply(dice.choice(("OK.", "I have nothing to do.", "")))]
        drawn = dice.random()
        peer = self.scenario.peers.get(agent)
        written = [self._letter(agent, peer, dice)] if peer and dice.random() < 0.5 else []
        done = Reply("", (Call("TaskUpdate", {"taskId": number, "status": "completed"}),))
        look = Reply.call("Glob", pattern="*.md")
        if drawn < 0.3:
            return [Reply("I will look into it.")]
        if drawn < 0.5:
            wrong = Reply.call("TaskUpdate", id=number, state="done")
            return [*written, wrong, Reply(f"Task done. {report.text}")]
        if drawn < 0.7:
            return [look, *written, report]
        if drawn < 0.85:
            return [done, Reply("")]
        return [look, *written, done, report]

    def _plan(self, agent: str, said: str, dice: random.Random) -> list[Reply]:
        drawn = dice.random()
        if drawn < 0.4:
            return [Reply("My plan is to write it in three steps.")]
        if drawn < 0.6:
            # It is not allowed to, and does not read the answer.
            return [Reply.call("Write", file_path="a.txt", content="x"), Reply("I wrote it.")]
        self.plans[agent] += 1
        text = f"Plan {self.plans[agent]} of {agent}: read, write, test."
        return [Reply.call("ExitPlanMode", plan=text), Reply("I wait for the answer.")]

    def _letter(self, agent: str, peer: str, dice: random.Random) -> Reply:
        text = f"{agent} says: it is not your theory."
        if dice.random() < 0.3:
            return Reply.call("SendMessage", target=peer, text=text)
        return Reply.call("SendMessage", to=peer, summary="my view", message=text)

    def _number(self, agent: str, said: str) -> str | None:
        """The task it believes to be its own: the one it was told of, or the first that fits."""
        found: list[str] = [one or other for one, other in _OWN.findall(said)]
        if found:
            return found[-1]
        wanted = [subject for subject, who in self.scenario.tasks.items() if who == agent]
        listed: dict[str, str] = {subject: number for number, subject in _LISTED.findall(said)}
        return next((listed[subject] for subject in wanted if subject in listed), None)

    def _lead(self, agent: str, request: ModelRequest, dice: random.Random) -> list[Reply]:
        said = request.given
        if not any(turn.role == "assistant" for turn in request.turns):
            return self._begin(dice)
        steps: list[Reply] = []
        for plan in self._plans(said):
            # It understands a direct question better.
            if dice.random() < (0.1 if "Waiting for your answer (Send" in said else FORGETS):
                return [Reply("I will read the plan later.")]
            steps.append(self._plan_answer(plan))
        numbers = [one or other for one, other in _GIVEN_BACK.findall(said)]
        for listed in _OPEN.findall(said):
            numbers += re.findall(r"#(\d+)", listed)
        if numbers and dice.random() < FORGETS:
            return [*steps, Reply("I see.")]
        steps += [self._again(number) for number in dict.fromkeys(numbers)]
        if "no task is open" in said and dice.random() >= FORGETS:
            steps.append(Reply.call("Finish", summary="All is done"))
        return [*steps, Reply("I wait.")]

    def _begin(self, dice: random.Random) -> list[Reply]:
        steps = []
        if dice.random() < FORGETS:
            steps.append(Reply.call("TaskCreate", title="A wrong field"))
        steps += [
            Reply.call("TaskCreate", subject=subject, description="Look at it and report.")
            for subject in self.scenario.tasks
        ]
        for name, wanted in self.scenario.spawn.items():
            given = {"name": name, "prompt": f"You are {name}. Do your part.", **wanted}
            steps.append(Reply("", (Call("Task", given),)))
        return [*steps, Reply("I wait for reports.")]

    def _plans(self, said: str) -> list[str]:
        found = [match[1] or match[0] for match in _PLAN.finditer(said)]
        return [each for each in dict.fromkeys(found) if each not in self._plans_answered]

    def _plan_answer(self, plan: str) -> Reply:
        approve = len(self._plans_answered) >= self.scenario.rejected
        self._plans_answered.append(plan)
        answer: dict[str, Any] = {"type": "plan_approval_response", "request_id": plan}
        answer |= {"approve": approve} if approve else {"approve": False, "feedback": "Say more."}
        who = next(iter(self.scenario.spawn))
        return Reply("", (Call("SendMessage", {"to": who, "message": answer}),))

    def _again(self, number: str) -> Reply:
        """Assign a task again, twice; then see to it itself."""
        subjects = list(self.scenario.tasks)
        who = self.scenario.tasks[subjects[(int(number) - 1) % len(subjects)]]
        self._assigned[number] += 1
        if self._assigned[number] > 2:
            return Reply.call("TaskUpdate", taskId=number, status="completed")
        return Reply.call("TaskUpdate", taskId=number, owner=who)
