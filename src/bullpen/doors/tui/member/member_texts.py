"""What is known about a member, in words: its title, its facts, its messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from rich.text import Text

from bullpen.agents.system import processes
from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import STATE_STYLES, TerminalText, clock, styled
from bullpen.view import agent_words, sentences
from bullpen.view.cards import MemberCard
from bullpen.view.story import Said, Story
from bullpen.view.stream import StreamItem
from bullpen.view.text import visible
from bullpen.view.transcript import STYLES, moment, said

_MESSAGES = 60


def title(card: MemberCard | None, look: TeamLook, terminal: TerminalText, width: int) -> str:
    """The name of a member and what it works on."""
    if card is None:
        return "has left the team"
    dot = f" {terminal.glyph('dot')} "
    parts = [look.name(card.name)]
    subjects = {task.id: task.activity or task.subject for task in look.scene.tasks}
    if card.tasks:
        first, *more = card.tasks
        others = f" and {len(more)} more" if more else ""
        parts.append(f"working on #{first} {subjects.get(first, '')}".rstrip() + others)
    return terminal.fit(dot.join(parts), max(4, width))


def facts(
    card: MemberCard | None, look: TeamLook, terminal: TerminalText, width: int, now_ms: int
) -> Text:
    """The state of a member, its mode, model, use and cost, on one line."""
    if card is None:
        return styled("")
    dot = f" {terminal.glyph('dot')} "
    since = sentences.age(card.since_ms, now_ms)
    if card.driver is None and card.state == "unknown":
        return styled("")
    line = styled(terminal.state(card.state), STATE_STYLES[card.state])
    line.append_text(styled(f" {since}" if since else "", "muted"))
    parts = [terminal.fit(look.words(card.detail), 60)] if card.detail else []
    member = look.story.members.get(card.name)
    if member is not None and member.agent is not None:
        parts.append(f"mode {member.agent.mode}")
    parts += [part for part in (card.model or card.driver, _host(card)) if part]
    if card.context is not None:
        parts.append(f"context {card.context:.0%}")
    if agent_words.used_any(card.usage):
        parts.append(agent_words.money(card.usage))
    if card.unread:
        parts.append(f"{card.unread} unread")
    for part in parts:
        shown = terminal.fit(part, 60)
        if line.cell_len + len(dot) + len(shown) > width:
            continue
        line.append_text(styled(dot + shown, "muted"))
    return line


def mail_blocks(look: TeamLook, name: str) -> list[tuple[str, str]]:
    """The messages from and to a member, oldest first."""
    blocks: list[tuple[str, str]] = []
    for each in messages_of(look.story, name, _MESSAGES):
        head = f"{clock(each.at_ms)} {look.route(each)}:"
        blocks += [(head, "strong"), (look.text(each), "muted" if each.kind else ""), ("", "")]
    return blocks or [("No messages yet.", "muted")]


def mail_items(look: TeamLook, name: str) -> list[StreamItem]:
    """The messages of a member as a stream, for one whose transcript cannot be read."""
    return [
        StreamItem(
            f"said-{each.seq}", each.at_ms, "mail", visible(sentences.body(each.message)),
            sender=_sender(look, each, name),
        )
        for each in messages_of(look.story, name, _MESSAGES)
        if each.kind is None
    ]  # fmt: skip


def _sender(look: TeamLook, each: Said, name: str) -> str:
    return look.sender(each) if name in each.to else look.route(each)


def messages_of(story: Story, name: str, last: int) -> list[Said]:
    """The last messages from and to a member, oldest first."""
    found = (each for each in reversed(story.said) if name in (each.sender, *each.to))
    return list(islice(found, last))[::-1]


def transcript_blocks(rows: Iterable[dict[str, Any]], day: list[str]) -> list[tuple[str, str]]:
    """The rows of a transcript in words; `day` holds the day that was last written."""
    blocks: list[tuple[str, str]] = []
    for row in rows:
        text, kind = said(row), str(row.get("kind", ""))
        if not text:
            continue
        date, time = moment(row.get("time"))
        if date and date != day[0]:
            day[0] = date
            blocks.append((date, "muted"))
        blocks.append((f"{time} {kind}: {text}", STYLES.get(kind, "")))
    return blocks


def _host(card: MemberCard) -> str:
    return f"on {card.host}" if card.host not in (None, processes.host_name()) else ""
