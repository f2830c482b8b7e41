"""The work of a member: what it changed, and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from textual import widgets
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widget import Widget

from bullpen.by_name import load
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.line_view import Blocks, TextScreen
from bullpen.doors.tui.member.diff_lines import diff_blocks
from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.errors import BullpenError
from bullpen.protocol.request import Request
from bullpen.view.text import visible

if TYPE_CHECKING:
    from bullpen.doors.actions.changes import Changes

MARKDOWN_MAX = 40_000
"""A longer text is shown as it is: each of its paragraphs would be a widget."""

_REFRESH_S = 1.0
_STATES = {
    "pending": ("This plan waits for an answer.", "attention"),
    "approved": ("This plan was approved.", "good"),
    "denied": ("This plan was rejected.", "bad"),
    "expired": ("Nobody answered this plan in time.", "bad"),
}


class ChangesView(TextScreen):
    """What a member changed: for its task, or all of it."""

    def __init__(self, terminal: TerminalText, late_app: LateApp) -> None:
        super().__init__(terminal, dom_id="diff")
        self._late_app = late_app
        self._of: tuple[str, str, str | None] | None = None
        self._tasks: tuple[str, ...] = ()

    def forget(self) -> None:
        """Another member is chosen: what is shown is not about it."""
        self._of = None
        self.read([("Press F3 for the changes of this member.", "muted")])

    def show(self, look: TeamLook, name: str, *, task: str | None, other: bool) -> None:
        """Show the changes for a task; with `other`, all of them if a task is shown."""
        card = look.member(name)
        self._tasks = () if card is None else card.tasks
        shown = None if self._of is None else self._of[2]
        if task is None and not (other and shown is not None) and self._tasks:
            task = self._tasks[0]
        self._of = (look.scene.team, name, task)
        self.read([("Reading the changes.", "muted")])
        self._begin(0.0)

    def refresh_soon(self) -> None:
        """Read the changes again: something was edited."""
        if self._of is not None:
            self._begin(_REFRESH_S)

    def _begin(self, wait_s: float) -> None:
        self.run_worker(self._look(wait_s), group="changes", exclusive=True, exit_on_error=False)

    async def _look(self, wait_s: float) -> None:
        if self._of is None:
            return
        await anyio.sleep(wait_s)
        team, name, task = self._of
        try:
            app = await self._late_app.ready_app()
            changes = await load("bullpen.doors.actions.changes:member_changes")(
                app, team, name, task=task
            )
        except BullpenError as error:
            self.read([(str(error), "bad")])
            return
        except Exception as error:
            self.read([(f"This is a bug in Bullpen: {type(error).__name__}: {error}", "bad")])
            return
        self.read(self._shown(changes, task))

    def _shown(self, changes: Changes, task: str | None) -> Blocks:
        base = f" against {changes.base}" if changes.base else ""
        blocks = [(f"{changes.title}{base}", "strong")]
        if task is not None:
            blocks.append(("F3 again: all changes in its worktree", "muted"))
        elif self._tasks:
            blocks.append((f"F3 again: only the changes for task #{self._tasks[0]}", "muted"))
        if changes.note:
            blocks.append((changes.note, "attention"))
        blocks.append(("", ""))
        # Without a commit to compare with, the note says why nothing can be shown.
        nothing = [] if changes.base is None and changes.note else [("No changes.", "muted")]
        return [*blocks, *(diff_blocks(changes.files) or nothing)]


class PlanView(Vertical):
    """The last plan of a member, as Markdown."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(id="plan")
        self._text = TextScreen(terminal, dom_id="plan-state")
        self._markdown: widgets.Markdown | None = None
        self._drawn: tuple[str, str] | None = None

    def compose(self) -> ComposeResult:
        yield self._text
        yield VerticalScroll(id="plan-text", can_focus=False)

    @property
    def main(self) -> Widget:
        """The widget that scrolls."""
        area = self.query_one("#plan-text")
        return area if area.display else self._text

    def show(self, look: TeamLook, name: str) -> None:
        """Show the plan that the member wrote last."""
        plans = [
            request
            for request in look.story.requests.values()
            if request.kind == "plan" and request.sender == name
        ]
        last = max(plans, key=lambda request: request.created_ms, default=None)
        shown = ("", "") if last is None else (last.id, last.state)
        if shown != self._drawn:
            self._drawn = shown
            self._draw(last)

    def _draw(self, plan: Request | None) -> None:
        area = self.query_one("#plan-text")
        if plan is None:
            area.display = False
            self._text.styles.height = "1fr"
            self._text.read([("No plan yet.", "muted")])
            return
        text = str(plan.subject.get("plan", ""))
        said = str((plan.answer or {}).get("feedback") or "")
        state, style = _STATES.get(plan.state, (plan.state, ""))
        head = f"{state} {said}".rstrip()
        long = len(text) > MARKDOWN_MAX
        area.display = not long
        self._text.styles.height = "1fr" if long else 1
        self._text.read([(head, style), *([(text, "")] if long else [])])
        if long:
            return
        if self._markdown is None:
            # Its links open nothing: an agent wrote them.
            self._markdown = widgets.Markdown(visible(text), open_links=False)
            area.mount(self._markdown)
        else:
            self._markdown.update(visible(text))
