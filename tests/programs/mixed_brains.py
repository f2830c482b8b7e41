"""What the models of the mixed team say: a lead and three programs, each by what it is told."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bullpen.protocol.names import LEAD
from bullpen.runs.teamfile.read import TeamFile
from bullpen.runs.teamfile.tables import CheckTable, TaskTable
from bullpen.testing.models import Call, Fault, ModelRequest, Reply

from .brain import ProgramBrain
from .claude_code_puppet import OWN, PlanningBrain

HELD_S = 240.0
"""How long a model waits for something that the test does."""

FORBIDDEN = "forbidden.txt"
DENIAL = "No command shall write files."
FIRST_PLAN = "I will design it."
REVISED_PLAN = "I will write DESIGN.md, which names lines.py, words.py and chars.py."
FEEDBACK = "Which files?"

_CLAIMED = re.compile(r"You have claimed task: #(\d+)")
_DONE = re.compile(r"task (\d+) is done")
_ANSWERS = re.compile(
    r"^To (deny it|approve|reject|allow this one call): SendMessage\((.*)\)$", re.MULTILINE
)


def stated_file(task: TaskTable) -> str:
    """The file that a task of the example must leave behind."""
    check = task.checks[0]
    assert isinstance(check, CheckTable)
    return check.path or ""


@dataclass(frozen=True, slots=True)
class _Step:
    """What a model answers; `held` until the member that was killed is back."""

    answer: Reply | Fault
    held: bool = False


class MixedBrains:
    """The models behind all four, for one server: who asks is known by the API and its words.

    While one member is being killed and started again, the others are held in their tasks: so it
    is that one, and nobody else, that takes its task up again.

    A step is given until the conversation has it: Codex throws away the answer that it waits for
    when mail comes, and asks again with the mail.
    """

    def __init__(
        self,
        file: TeamFile,
        project: Path,
        *,
        killed: tuple[str, str],
        denied: tuple[str, str],
        held: Sequence[str],
    ) -> None:
        self._ids = [task.id for task in file.tasks]
        self._files = {task.id: stated_file(task) for task in file.tasks}
        self._project = project
        self._names = [member.name for member in file.teammates]
        # Members, each with the task at which it happens to them.
        self._killed, self._denied = killed, denied
        self._held = held
        # The steps of each member that were not given yet, and the one that was given last.
        self._steps: dict[str, list[_Step]] = {name: [] for name in self._names}
        self._last: dict[str, _Step] = {}
        self._lock = threading.Lock()
        self._plans = 0
        self.in_mid_task = threading.Event()
        self.is_back = threading.Event()
        # Every word that a member wrote to a peer, with its receiver.
        self.words: dict[str, str] = {}
        # The whole conversation of each member, as its model saw it last.
        self.conversations: dict[str, str] = dict.fromkeys(self._names, "")
        self._programs = {name: ProgramBrain(partial(self._mate, name)) for name in self._names}
        self._programs["claude"] = PlanningBrain(partial(self._mate, "claude"), own=OWN)

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        """Answer a request of whoever asks."""
        if request.api == "anthropic" and request.agent == LEAD:
            return self._lead(request)
        name = {"responses": "codex", "chat": "goose"}.get(request.api, "claude")
        return self._programs[name](request)

    def _lead(self, request: ModelRequest) -> Reply:
        with self._lock:
            calls = [Call("SendMessage", answer) for answer in self._answers(request.given)]
            if calls:
                return Reply("I answer.", calls)
            if len(set(_DONE.findall(request.text))) == len(self._ids):
                if "is finished" in request.given or "Finish" in _last_calls(request):
                    return Reply("Finished.")
                return Reply.call("Finish", summary="The word counter is there.")
            return Reply("I wait.")

    def _answers(self, given: str) -> list[dict[str, Any]]:
        """What the lead answers to those who ask: no to the command, no to the first plan."""
        answers = []
        for words, text in _ANSWERS.findall(given):
            if words == "deny it":
                answer = json.loads(text)
                answer["message"]["feedback"] = DENIAL
                answers.append(answer)
            elif words == "approve" and self._plans > 0:
                answers.append(json.loads(text))
            elif words == "reject" and self._plans == 0:
                answer = json.loads(text)
                answer["message"]["feedback"] = FEEDBACK
                answers.append(answer)
                self._plans += 1
        return answers

    def _mate(self, name: str, request: ModelRequest) -> Reply | Fault:
        with self._lock:
            self.conversations[name] = request.text
            step = self._last.get(name)
            if step is None or _arrived(step.answer, request):
                steps = self._steps[name]
                if not steps:
                    steps += self._decided(name, request.given)
                step = self._last[name] = steps.pop(0)
        if step.held and not self.is_back.wait(HELD_S):
            raise AssertionError(f"{self._killed[0]} did not come back in {HELD_S} s")
        return step.answer

    def _decided(self, name: str, given: str) -> list[_Step]:
        """What a member does about what it is told at the beginning of a turn."""
        # A program that was killed tells its model again what it had not answered before.
        given = given.rpartition("<team-digest>")[2]
        if "[Plan Rejected]" in given:
            return _planning(REVISED_PLAN)
        if "[Plan Approved]" in given:
            return self._work(name, "1")
        claimed = _CLAIMED.findall(given)
        if not claimed:
            return [_saying("Noted.")]
        if claimed[-1] == "1" and name == "claude":
            return _planning(FIRST_PLAN)
        return self._work(name, claimed[-1])

    def _work(self, name: str, number: str) -> list[_Step]:
        """How a task is done: its file is written, a peer is told, and it is completed."""
        task = self._ids[int(number) - 1]
        if (name, task) == self._killed:
            if not self.in_mid_task.is_set():
                self.in_mid_task.set()
                return [_Step(Fault.hanging(600))]
            self.is_back.set()
        path = self._project / self._files[task]
        peer = self._names[(self._names.index(name) + 1) % len(self._names)]
        word = f"word{number}of{name}"
        self.words[word] = peer
        told = f"{path.name} is there: {word}"
        # To one that is dead nothing can be sent: the message waits until it is back.
        telling = _calling("SendMessage", to=peer, summary=f"{task} is written", message=told)
        steps = [
            _calling("Write", file_path=str(path), content=f"{task} by {name}\n"),
            replace(telling, held=task in self._held),
            _calling("TaskUpdate", taskId=number, status="completed"),
            _saying(f"task {number} is done"),
        ]
        if (name, task) == self._denied:
            steps.insert(0, _calling("Bash", command=f"touch {self._project / FORBIDDEN}"))
        return steps


def _arrived(answer: Reply | Fault, request: ModelRequest) -> bool:
    """Whether the program has an answer. A fault is over once it was given."""
    if isinstance(answer, Fault):
        return True
    spoken = [turn for turn in request.turns if turn.role == "assistant"]
    known = {call.id for turn in spoken for call in turn.calls}
    if answer.calls:
        return all(call.id in known for call in answer.calls)
    return any(answer.text in turn.text for turn in spoken)


def _saying(text: str) -> _Step:
    return _Step(Reply(text))


def _calling(tool: str, **given: Any) -> _Step:
    return _Step(Reply.call(tool, **given))


def _planning(plan: str) -> list[_Step]:
    """How a plan is submitted in Claude Code: it wants it in a file that it names itself."""
    return [
        _calling("TaskList"),
        _calling("Write", file_path="", content=plan),
        _calling("ExitPlanMode"),
        _saying("I wait for an answer."),
    ]


def _last_calls(request: ModelRequest) -> list[str]:
    spoken = [turn for turn in request.turns if turn.role == "assistant"]
    return [call.name for call in spoken[-1].calls] if spoken else []
