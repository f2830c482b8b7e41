"""`bullpen send` and `bullpen inbox`: messages between members."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bullpen.cli import complete
from bullpen.cli.command import command
from bullpen.cli.session import Session, text_or_input

if TYPE_CHECKING:
    from bullpen.store.base import Entry, Mailbox
    from bullpen.team.mailbox import Sent
    from bullpen.team.team import Team


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "send",
        examples=(
            "bullpen send alice 'Please start with the parser'",
            "bullpen send @team 'Stand-up in five minutes'",
            "git log -3 | bullpen send alice - --summary 'What changed'",
        ),
    )(send)
    command(
        app,
        "inbox",
        examples=(
            "bullpen inbox alice --unread",
            "bullpen inbox --follow --mark-seen",
        ),
    )(inbox)


def send(
    session: Session,
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="A member, or @team for everybody else.",
            autocompletion=complete.receivers,
        ),
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads it from input.")],
    *,
    summary: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The text in a few words.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Sending again with the same key sends nothing new."),
    ] = None,
    reply_to: Annotated[
        str | None, typer.Option(metavar="ID", help="The message this answers.")
    ] = None,
) -> None:
    """Send a message to a member, or to everybody else in the team."""
    body = text_or_input(text)
    if to == complete.EVERYBODY:
        if reply_to is not None:
            raise typer.BadParameter("only a message to one member can be a reply.")
        all_sent = session.with_team(
            lambda team: team.mailbox.broadcast(
                body, sender=session.actor, summary=summary, key=key
            )
        )
        session.page.result({"sent": [_json(sent) for sent in all_sent]}, *map(_line, all_sent))
        return
    sent = session.with_team(
        lambda team: team.mailbox.send(
            to, body, sender=session.actor, summary=summary, in_reply_to=reply_to, key=key
        )
    )
    session.page.result(_json(sent), _line(sent))


def _json(sent: Sent) -> dict[str, Any]:
    return {
        "id": sent.id,
        "to": sent.to,
        "seq": sent.seq,
        "ahead": sent.ahead,
        "duplicate": sent.duplicate,
    }


def _line(sent: Sent) -> str:
    if sent.duplicate:
        return f"Sent to {sent.to} before ({sent.id}); nothing new was sent."
    ahead = f", {sent.ahead} unread before it" if sent.ahead else ""
    return f"Sent to {sent.to} ({sent.id}{ahead})."


def inbox(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Whose mailbox. [default: your own, see --as]",
            show_default=False,
            autocompletion=complete.member_names,
        ),
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new messages.")] = False,
    unread: Annotated[bool, typer.Option("--unread", help="Only what was not seen yet.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Also what was archived.")] = False,
    mark_seen: Annotated[
        bool, typer.Option("--mark-seen", help="Mark what is shown as seen.")
    ] = False,
) -> None:
    """Show a mailbox. Looking at messages does not mark them as seen."""
    owner = name or session.actor

    def wanted(mailbox: Mailbox) -> tuple[Entry, ...]:
        return mailbox.unread if unread else mailbox.entries

    async def look(team: Team) -> None:
        mailbox = await team.mailbox.read(owner, history=history)
        entries = wanted(mailbox)
        session.show.mailbox(mailbox, entries, name=owner)
        await seen(team, entries)

    async def wait(team: Team) -> None:
        async with aclosing(team.mailbox.follow(owner, history=history)) as arrivals:
            async for mailbox in arrivals:
                entries = wanted(mailbox)
                session.show.letters(mailbox, entries)
                await seen(team, entries)

    async def seen(team: Team, entries: tuple[Entry, ...]) -> None:
        if mark_seen and entries:
            # Only what has reached the reader counts as seen.
            session.page.flush()
            await team.mailbox.mark(owner, [entry.id for entry in entries], "seen")

    session.with_team(wait if follow else look)
