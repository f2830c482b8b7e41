"""The first line: the team, its tasks, its cost and time, and how much waits for the person."""

from __future__ import annotations

from rich.text import Text

from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.protocol.presence import ENDED
from bullpen.view import agent_words
from bullpen.view.sentences import age

_PART_LEAST = 20
"""A part that would be cut to less than this is left out."""


def head(look: TeamLook, now_ms: int, width: int, terminal: TerminalText) -> Text:
    """The team in one line, the most important part first; what waits is at the right end."""
    scene = look.scene
    waits = sum(ask.for_people for ask in scene.asks)
    waiting = f"{terminal.glyph('waiting')} {waits} waiting for you " if waits else ""
    room = width - len(waiting) - (2 if waits else 0)
    line = styled("")
    dot = f" {terminal.glyph('dot')} "
    for number, (text, style) in enumerate(_parts(look, now_ms, width, terminal)):
        shown = terminal.fit(text, room - line.cell_len - len(dot))
        if number and len(shown) < min(len(text), _PART_LEAST):
            break
        line.append_text(styled(dot if number else " ", "muted"))
        line.append_text(styled(shown, style))
    if waits:
        line.append(" " * max(2, width - line.cell_len - len(waiting)))
        line.append_text(styled(waiting, "attention"))
    return line


def _parts(
    look: TeamLook, now_ms: int, width: int, terminal: TerminalText
) -> list[tuple[str, str]]:
    scene = look.scene
    parts = [(terminal.fit(scene.team, max(8, width // 4)), "strong")]
    parts.append((f"{scene.finished}/{len(scene.tasks)} tasks", ""))
    limit = "" if scene.limits.usd is None else f" of {_dollars(scene.limits.usd)}"
    if agent_words.used_any(scene.total) or limit:
        usage = scene.total
        exact = not (usage.unpriced or usage.estimated)
        spent = f"${usage.cost_usd:.2f}" if exact else agent_words.money(usage)
        parts.append((f"{spent}{limit}", ""))
    states = {card.state for card in scene.members}
    if scene.began_ms is not None:
        # The time stops when all agents have ended.
        until_ms = look.story.at_ms if states <= ENDED else now_ms
        parts.append((age(scene.began_ms, until_ms), ""))
    if scene.verdict.status != "running":
        ended = terminal.fit(scene.verdict.sentence, 200)
        parts.append((ended, scene.verdict.manner.tone))
    if scene.result:
        parts.append((f"result: {terminal.fit(scene.result, 200)}", ""))
    elif scene.description:
        parts.append((terminal.fit(scene.description, 200), "muted"))
    return parts


def _dollars(usd: float) -> str:
    return f"${usd:.0f}" if usd == int(usd) else f"${usd:.2f}"
