"""The help window: all keys and commands on one page."""

from __future__ import annotations

from bullpen.doors.tui.dialogs import TextWindow
from bullpen.doors.tui.prompt.commands import COMMANDS
from bullpen.doors.tui.terminal_text import TerminalText

_KEYS = """\
Talk
  type          write to whoever the input line names; the lead at first
  enter         send; in an empty line: talk to the chosen member
  @name text    write to another member; @team writes to everybody
  ctrl+j        new line
  up, down      in an empty line: what you sent before
  tab           complete a name or a command

Answer, with the input line empty
  a             allow once, exactly as shown
  A             allow, and always from now on; then choose what it covers
  d             deny; you can type a reason for the agent
  e             edit the input, then allow
  v             view all of it
  n             next request
  1-9           choose an option of a question; or type the answer
  w             approve a plan with words; answer a question with words

Team
  shift+up      choose the previous member; shift+down: the next one
  escape        close what is open; else interrupt the chosen agent's turn:
                it waits until you tell it what to do
  shift+tab     next permission mode of the chosen agent
  ctrl+t        tasks: the board; g there: the graph
  F2 to F6      stream, diff, transcript, mail and plan of the member
  F7            the team's notes: its plan, interfaces, decisions
  pgup, pgdn    scroll; ctrl+home, ctrl+end: to the begin, to the end
  tab           with the input line empty: go to the lists and the stream,
                where enter opens a task or a call; escape comes back

Leave
  ctrl+d        in a run: finish it (press twice); else leave
  ctrl+c        clear the line; twice: stop the run; else leave

Marks
{marks}

Commands"""
_MARKS = (
    ("members", ("working", "waiting", "idle", "starting", "stopped", "failed", "lead")),
    ("tasks", ("in_progress", "ready", "blocked", "queued", "unproven", "merged", "given_up")),
)
_MEANS = {
    "failed": "failed or lost", "lead": "leads", "ready": "open", "blocked": "after others",
    "queued": "in the merge queue", "unproven": "not proven", "merged": "done",
}  # fmt: skip


def help_screen(terminal: TerminalText) -> TextWindow:
    usage = max(len(command.usage) for command in COMMANDS)
    commands = [f"  {command.usage:<{usage}}  {command.about}" for command in COMMANDS]
    lines = [*_KEYS.format(marks=_marks(terminal)).split("\n"), *commands]
    return TextWindow(
        terminal, "Keys", [(line, "" if line.startswith(" ") else "strong") for line in lines]
    )


def _marks(terminal: TerminalText) -> str:
    """What the marks before members and tasks mean."""
    lines = []
    for whose, states in _MARKS:
        each = [f"{terminal.glyph(state)} {_MEANS.get(state, _spoken(state))}" for state in states]
        lines += [f"  {whose:<13} {'   '.join(each[:4])}", f"  {'':<13} {'   '.join(each[4:])}"]
    return "\n".join(lines)


def _spoken(state: str) -> str:
    return state.replace("_", " ")
