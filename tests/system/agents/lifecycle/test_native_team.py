"""A whole team on real SDKs and mock model APIs, on every backend, with nothing lost or doubled."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.app.settings import Settings
from bullpen.protocol.names import LEAD
from bullpen.runs.goal import Goal, run_goal
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.testing.models import Fault, MockModels, ModelRequest, Reply
from bullpen.testing.models.shapes import Call
from support.offices import TEAM, needs_tmux, opened

NAMES = ("ada", "ben", "cy")
# Task number to those it waits for: a graph with two layers of joins.
GRAPH: dict[int, tuple[int, ...]] = {
    1: (),
    2: (),
    3: (),
    4: (1, 2),
    5: (2, 3),
    6: (4,),
    7: (5,),
    8: (6, 7),
}


class Team:
    """What the models of a lead and three teammates do. It remembers every word that was sent."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self._lock = threading.Lock()
        self._steps: dict[str, list[Reply]] = {}
        self._counted = 0

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        agent = request.agent
        assert agent is not None, request.system
        with self._lock:
            waiting = self._steps.setdefault(agent, [])
            if waiting:
                return waiting.pop(0)
            fresh = _since_last_answer(request)
            steps = self._lead(request, fresh) if agent == LEAD else self._mate(agent, fresh)
            self._steps[agent] = steps[1:]
            return steps[0]

    def _word(self, to: str) -> str:
        """A word that occurs nowhere else, to find a message by."""
        self._counted += 1
        word = f"word{self._counted:04d}for{to}"
        self.words[word] = to
        return word

    def _lead(self, request: ModelRequest, fresh: str) -> list[Reply]:
        if "Your user says" in fresh:
            tasks = [
                Reply.call(
                    "TaskCreate",
                    subject=f"Part {number}",
                    description=f"Write part{number}.txt",
                    addBlockedBy=[str(each) for each in after],
                )
                for number, after in GRAPH.items()
            ]
            spawns = [Reply("", (Call("SpawnTeammate", self._wanted(name)),)) for name in NAMES]
            return [*tasks, *spawns, Reply("I wait for reports.")]
        completed = len(set(re.findall(r"part(\d) is written", request.text)))
        if completed == len(GRAPH):
            return [Reply.call("Finish", summary="All parts are written"), Reply("Finished.")]
        return [Reply("I wait.")]

    def _wanted(self, name: str) -> dict[str, str]:
        return {"name": name, "prompt": f"Take tasks. {self._word(name)}"}

    def _mate(self, agent: str, fresh: str) -> list[Reply]:
        claimed = re.findall(r"You have claimed task: #(\d+)", fresh)
        if not claimed:
            return [Reply("")]
        number = claimed[-1]
        peer = NAMES[(NAMES.index(agent) + 1) % len(NAMES)]
        words = f"part {number} exists now. {self._word(peer)}"
        return [
            Reply.call("Write", file_path=f"part{number}.txt", content=f"{agent}\n"),
            Reply(
                text="Two at once.",
                calls=(
                    Call("Bash", {"command": f"test -s part{number}.txt && echo fine"}),
                    Call("SendMessage", {"to": peer, "summary": "news", "message": words}),
                ),
            ),
            Reply.call("TaskUpdate", taskId=number, status="completed"),
            Reply(f"part{number} is written. {self._word(LEAD)}"),
        ]


def _since_last_answer(request: ModelRequest) -> str:
    """What the model was told since it last said something."""
    texts: list[str] = []
    for turn in request.turns:
        texts = [] if turn.role == "assistant" else [*texts, turn.text]
    return "\n".join(texts)


async def run(place: Path, mock: MockModels, backend: str, model: str) -> Outcome:
    async with opened(place, **mock.env) as app:
        settings = Settings(home=app.home, team=TEAM, agent=LEAD)
        goal = Goal(
            text="Write eight parts",
            lead=SpawnRequest(
                cwd=str(app.project), backend=backend, model=model, mode="bypassPermissions"
            ),
            team=TEAM,
            timeout_s=240,
        )
        lines: list[str] = []

        def watch(progress: Progress) -> None:
            lines.extend(progress.news)

        before = dict(os.environ)
        os.environ.update({**mock.env, "BULLPEN_TMUX_SOCKET": app.socket})
        try:
            outcome = await run_goal(goal, settings=settings, watch=watch)
        finally:
            os.environ.clear()
            os.environ.update(before)
        assert outcome.status == "done", (outcome, lines)
        tasks = (await app.team.tasks.list()).tasks
        assert {task.status for task in tasks} == {"completed"}
        assert app.processes() == []
        assert app.panes() == []
        written = sorted(path.name for path in app.project.iterdir())
        assert written == [f"part{number}.txt" for number in GRAPH]
        return outcome


@pytest.mark.parametrize(
    ("backend", "model"),
    [
        ("in-process", "anthropic:claude-mock-1"),
        pytest.param("in-process", "openai:gpt-mock-1", marks=pytest.mark.nightly),
        pytest.param("subprocess", "anthropic:claude-mock-1", marks=pytest.mark.nightly),
        ("subprocess", "openai-chat:gpt-mock-1"),
        pytest.param("tmux", "anthropic:claude-mock-1", marks=[needs_tmux, pytest.mark.nightly]),
        pytest.param("tmux", "openai:gpt-mock-1", marks=needs_tmux),
    ],
)
async def test_a_team_of_four_completes_a_graph_of_eight_tasks(
    tmp_path: Path, backend: str, model: str
) -> None:
    """Every message is in its receiver's context exactly once, as the requests themselves show."""
    team = Team()
    with MockModels(team) as mock:
        outcome = await run(tmp_path, mock, backend, model)
        requests = {name: mock.of(name) for name in (*NAMES, LEAD)}
    assert outcome.summary == "All parts are written"
    assert outcome.usage.input_tokens > 0
    assert len(team.words) == 3 + 8 + 8
    for word, to in team.words.items():
        counts = [_told(request).count(word) for request in requests[to]]
        # Peers' last messages may come when everybody has been stopped; reports may not.
        if to == LEAD:
            assert counts[-1] == 1, f"{word} was not seen by {to}"
        assert set(counts) <= {0, 1}, f"{word} was {max(counts)} times in a request of {to}"
        # Once there, it stays: it was not given, forgotten and given again.
        assert counts == sorted(counts)
        for other in set(requests) - {to}:
            assert not any(word in _told(request) for request in requests[other])


def _told(request: ModelRequest) -> str:
    """What others told the model: not its own calls, nor their results."""
    return "\n".join(turn.text for turn in request.turns if turn.role != "assistant")
