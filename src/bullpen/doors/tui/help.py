"""The help window: all keys on one page."""

from __future__ import annotations

from bullpen.doors.tui.dialogs import TextWindow
from bullpen.doors.tui.terminal_text import TerminalText

_KEYS = """\
Pages
  1        Members: who is in the team and what each does
  2        Tasks: the board; g switches to the graph and back
  3        Messages: who wrote what to whom; n shows notices
  4        Waiting: requests that need an answer
  5        Log: what happened
  arrows   move; also j, k, pgup, pgdn, home, end
  shift    with up or down: go to the previous or next member
  ctrl+t   go to the tasks
  tab      go to the next part of the page
  enter    open a member, a task, a message or a log line
  esc      go back, or clear the filter

Search
  /        show only lines that contain these words
           for messages also from:NAME and to:NAME
  n        messages: show or hide notices

Actions
  m        write to the selected member; M writes to everybody
  t        assign the selected task, or a task to the member
  s        stop the selected agent (asks first)
  shift+tab  change the mode of the selected agent
  o        show an agent's own terminal; ctrl+b d returns here

Answer requests, on page 4
  a        approve once, exactly as shown
  A        approve, and always allow the same from now on
  e        edit the input, then approve
  d        deny, with a reason
  r        show a plan as plain text, or as Markdown again

Other
  T        next theme; ctrl+p lists all themes
  w        switch to another team
  ?        this page
  q        quit; the team keeps running"""


def help_screen(terminal: TerminalText) -> TextWindow:
    lines = _KEYS.split("\n")
    return TextWindow(
        terminal, "Keys", [(line, "" if line.startswith(" ") else "strong") for line in lines]
    )
