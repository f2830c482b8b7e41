"""One screen that shows a team at work: the goal, the agents, the tasks, what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rich.text import Text

from bullpen.doors.cli.output import board
from bullpen.doors.cli.output.board import LineWriter
from bullpen.runs.watch.outcome import Progress
from bullpen.team.snapshot import Snapshot
from bullpen.view import agent_words as words
from bullpen.view import sentences
from bullpen.view.news import folded, planner
from bullpen.view.text import one_line

_SIDE_BY_SIDE = 110
"""From this width on, tasks and happenings stand beside each other."""

_AIRY = 20
"""From this height on, the news and the last line stand apart from what is above them."""

_LEAST_ROWS = 3
_ALERTS_MAX = 3

Happening = tuple[str, str]
"""When something happened, and what."""


@dataclass(slots=True)
class RunScene:
    """What a picture is made of. It changes; a picture is of one moment."""

    goal: str
    progress: Progress | None = None
    news: list[Happening] = field(default_factory=list)
    stopping: bool = False
    # Whether the team is there afterwards.
    kept: bool = True
    # What a command to type in another terminal must add.
    elsewhere: str = ""


def picture(
    scene: RunScene,
    *,
    width: int,
    height: int,
    elapsed_s: float,
    now_ms: int,
    encoding: str = "utf-8",
) -> list[Text]:
    """The lines of a picture, exactly `height` of them, each `width` columns wide."""
    writer = LineWriter(width, encoding=encoding)
    lines = _head(writer, scene, elapsed_s)
    air = 1 if height >= _AIRY else 0
    room = max(0, height - 1 - air)
    if scene.progress is None:
        lines.append(writer.text("Starting the team.", "muted"))
    else:
        lines += _body(writer, scene, scene.progress, now_ms, room=room - len(lines), air=air)
    lines = lines[:room]
    lines += [writer.text("")] * (height - 1 - len(lines))
    return [*lines, _foot(writer, scene)][:height]


def _head(writer: LineWriter, scene: RunScene, elapsed_s: float) -> list[Text]:
    usage = words.total(scene.progress.agents if scene.progress else ())
    left = Text("bullpen", style="bold")
    if scene.progress is not None:
        left.append(f"  {one_line(scene.progress.team)}", style="cyan not bold")
    right = Text(words.duration(elapsed_s), style="bold")
    if words.used_any(usage):
        right.append(f"   {words.tokens(usage)} tokens   {words.money(usage)}", style="not bold")
    return [writer.ends(left, right), writer.text(scene.goal), writer.text("")]


def _foot(writer: LineWriter, scene: RunScene) -> Text:
    if scene.stopping:
        return writer.text("Stopping the agents. Press Ctrl-C again to quit at once.", "attention")
    kept = " and keeps the team and its work" if scene.kept else ""
    return writer.text(f"Ctrl-C stops the agents{kept}.", "muted")


def _body(
    writer: LineWriter, scene: RunScene, progress: Progress, now_ms: int, *, room: int, air: int
) -> list[Text]:
    snapshot = progress.snapshot
    alerts = _alerts(writer, snapshot, elsewhere=scene.elsewhere)
    room -= len(alerts)
    wide = writer.width >= _SIDE_BY_SIDE
    news = _folded(scene.news)
    wants = len(progress.agents), max(1, len(snapshot.tasks)), len(news)
    # The head of the agents, an empty line, the line with the bar; and the title of the news.
    if wide:
        agents, _ = share(room - 3, (wants[0], max(wants[1:])))
        parts = _beside(writer, news, snapshot, room - 2 - agents)
    else:
        agents, tasks, _ = share(room - 4 - air, wants)
        parts = [*_tasks(writer, snapshot, tasks), *[writer.text("")] * air]
        parts += _news(writer, news, room - 3 - air - agents - tasks)
    return [
        *alerts,
        *board.agent_lines(writer, progress.agents, snapshot, now_ms=now_ms, room=agents + 1),
        writer.text(""),
        *parts,
    ]


def share(room: int, wants: Sequence[int]) -> list[int]:
    """How many rows each part gets: a few for everybody, the rest to the first that want more."""
    least = max(_LEAST_ROWS, room // 4)
    given = [min(want, least) for want in wants]
    left = room - sum(given)
    for at, want in enumerate(wants):
        more = max(0, min(want - given[at], left))
        # Nobody takes everything while the parts after it want more too.
        others = any(later > given[at + 1 + k] for k, later in enumerate(wants[at + 1 :]))
        given[at] += (more + 1) // 2 if others and more == left else more
        left = room - sum(given)
    return given


def _tasks(writer: LineWriter, snapshot: Snapshot, room: int) -> list[Text]:
    return [
        board.progress_line(writer, snapshot.tasks),
        *board.task_lines(writer, snapshot.tasks, room=room),
    ]


def _folded(news: Sequence[Happening]) -> list[Happening]:
    """The happenings with what somebody planned in one go on one line, at the time of its end."""
    told: list[Happening] = []
    for who, group in groupby(news, lambda happening: planner(happening[1])):
        run = list(group)
        lines = run if who is None else [(run[-1][0], line) for line in folded([t for _, t in run])]
        told += lines
    return told


def _news(writer: LineWriter, news: Sequence[Happening], room: int) -> list[Text]:
    """The newest happenings under a title, if there is room for one of them."""
    if room < 2:
        return []
    return [
        writer.title("News"),
        *(
            writer.line(writer.fit(f"{time}  ", 10, "muted"), writer.fit(text, writer.width - 10))
            for time, text in news[1 - room :]
        ),
    ]


def _beside(
    writer: LineWriter, happened: Sequence[Happening], snapshot: Snapshot, room: int
) -> list[Text]:
    left = writer.narrower((writer.width - 3) // 2)
    right = writer.narrower(writer.width - 3 - left.width)
    tasks = _tasks(left, snapshot, room - 1)
    news = _news(right, happened, room)
    rows = max(len(tasks), len(news))
    tasks += [left.text("")] * (rows - len(tasks))
    news += [right.text("")] * (rows - len(news))
    return [writer.line(*pair) for pair in zip(tasks, [Text("   ")] * rows, news, strict=True)]


def _alerts(writer: LineWriter, snapshot: Snapshot, *, elsewhere: str) -> list[Text]:
    """What needs attention: first what a person must answer, then the rest."""
    waiting = sorted(snapshot.pending, key=lambda request: not sentences.is_for_people(request))
    said = board.request_lines(writer, waiting, snapshot, elsewhere=elsewhere)
    said += [
        writer.text(f"! cannot read {problem.where}: {problem.why}", "bad")
        for problem in snapshot.problems
    ]
    more = len(said) - _ALERTS_MAX
    if more > 0:
        said[_ALERTS_MAX - 1 :] = [writer.text(f"! and {more + 1} more", "attention")]
    return [*said, writer.text("")] if said else []
