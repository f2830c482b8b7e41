"""A live picture of a team on a terminal. It has the screen to itself and gives it back."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.doors.cli.agents.agents_table import AgentViews
from bullpen.doors.cli.output import board
from bullpen.doors.cli.output.board import LineWriter
from bullpen.doors.cli.output.run_screen import RunScene, picture
from bullpen.doors.cli.output.screen import Screen, deaf
from bullpen.doors.cli.output.watch_run import Watcher, clock
from bullpen.protocol.clock import now_ms
from bullpen.protocol.request import Request
from bullpen.runs.watch.outcome import Outcome, Progress
from bullpen.team.snapshot import Snapshot

_FRAMES_PER_SECOND = 4
_NEWS_MAX = 200


class LiveWatcher(Watcher):
    """Shows a picture that is drawn anew a few times a second, whatever happens meanwhile."""

    def __init__(self, screen: Screen, goal: str, *, kept: bool, elsewhere: str = "") -> None:
        super().__init__(screen, goal, elsewhere=elsewhere)
        self._screen = screen
        self._scene = RunScene(goal, kept=kept, elsewhere=elsewhere)
        self._live = Live(
            self,
            console=screen.console,
            screen=True,
            refresh_per_second=_FRAMES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._aside = io.StringIO()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Watcher:
        # What libraries say meanwhile would tear the picture: it is said afterwards.
        self._stack.enter_context(contextlib.redirect_stderr(self._aside))
        self._stack.enter_context(deaf())
        self._stack.enter_context(self._live)
        return self

    def close(self) -> None:
        """Give the terminal back, and say what was kept back."""
        self._stack.close()
        if self._aside.getvalue() and sys.stderr is not None:
            sys.stderr.write(self._aside.getvalue())
            self._aside = io.StringIO()

    def stopping(self) -> None:
        """Say that the agents are being stopped."""
        self._scene.stopping = True

    def ended(self, outcome: Outcome, *, next_steps: list[str]) -> None:
        """Leave the last picture of agents and tasks on the screen, then say how it ended."""
        if self.progress is not None:
            writer, now = _writer(self._screen), now_ms()
            snapshot, agents = self.progress.snapshot, self.progress.agents
            lines = board.agent_lines(writer, agents, snapshot, now_ms=now, room=None)
            lines += [writer.text(""), board.progress_line(writer, snapshot.tasks)]
            lines += board.task_lines(writer, snapshot.tasks, room=None)
            for line in [*lines, writer.text("")]:
                self._screen.put(line)
        super().ended(outcome, next_steps=next_steps)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.size
        lines = picture(
            self._scene,
            width=width,
            height=height,
            elapsed_s=self.elapsed_s,
            now_ms=now_ms(),
            encoding=options.encoding,
        )
        for number, line in enumerate(lines):
            if number:
                yield Segment.line()
            # Joined, since `render` leaves out the style of a text that has no spans.
            yield from Text("").join([line]).render(console)

    def _begins(self, progress: Progress) -> None:
        self._scene.progress = progress

    def _asked(self, team: str, request: Request, handle: str) -> None:
        """What waits stands on top of the picture as long as it waits."""

    def _happened(self, team: str, text: str) -> None:
        self._scene.news.append((clock(), text))
        del self._scene.news[:-_NEWS_MAX]

    def saw(self, progress: Progress) -> None:
        """Take note of how far the team is."""
        super().saw(progress)
        self._scene.progress = progress


class ScreenAgentViews(AgentViews):
    """Shows agents on a terminal, a line each."""

    def __init__(self, screen: Screen, *, reader: str, elsewhere: str = "") -> None:
        super().__init__(screen, reader=reader, elsewhere=elsewhere)
        self._screen = screen

    def table(self, views: Sequence[AgentView], snapshot: Snapshot) -> None:
        """Write a line for each agent."""
        writer = _writer(self._screen)
        for line in board.agent_lines(writer, views, snapshot, now_ms=snapshot.taken_ms, room=None):
            self._screen.put(line)

    def requests(self, requests: Sequence[Request], snapshot: Snapshot) -> None:
        """Write a line for each request, with what to type."""
        writer = _writer(self._screen)
        for line in board.request_lines(writer, requests, snapshot, elsewhere=self._elsewhere):
            self._screen.put(line)


def _writer(screen: Screen) -> LineWriter:
    return LineWriter(screen.console.width, encoding=screen.console.encoding)
