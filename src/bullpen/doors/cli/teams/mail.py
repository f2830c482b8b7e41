"""`bullpen send` and `bullpen inbox`: messages between members."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

import typer

from bullpen.doors.actions.absence import absent
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.session import Session, text_or_input
from bullpen.store.contract import Entry, Mailbox
from bullpen.team.mail.operations import Sent
from bullpen.team.team import Team


@examples(
    "bullpen send alice 'Please start with the parser'",
    "bullpen send @team 'Stand-up in five minutes'",
    "git log -3 | bullpen send alice - --summary 'What changed'",
)
def send(
    session: Session,
    to: Annotated[
        str, argument("A member, or @team for everybody else", "TO", complete=completion.receivers)
    ],
    text: Annotated[str, argument("The text; - reads standard input", "TEXT")],
    *,
    summary: Annotated[str | None, option("The text in a few words", "TEXT")] = None,
    key: Annotated[
        str | None, option("Send nothing if a message was sent with this key", "TEXT")
    ] = None,
    reply_to: Annotated[str | None, option("The message this answers", "ID")] = None,
) -> None:
    """Send a message to a member or the whole team."""
    body = text_or_input(text)
    if to == completion.EVERYBODY:
        if reply_to is not None:
            raise typer.BadParameter("--reply-to works only for a message to one member.")

        async def tell_all(team: Team) -> list[Sent]:
            by, voice = await session.identity.speaks(team)
            return await team.mailbox.broadcast(
                body, sender=by, summary=summary, key=key, voice=voice
            )

        all_sent = session.with_team(tell_all)
        session.page.result("broadcast/1", {"sent": all_sent}, *map(_line, all_sent))
        return

    async def tell(team: Team) -> tuple[Sent, str | None]:
        by, voice = await session.identity.speaks(team)
        sent = await team.mailbox.send(
            to, body, sender=by, summary=summary, in_reply_to=reply_to, key=key, voice=voice
        )
        return sent, await absent(team, to, told="your message")

    sent, away = session.with_team(tell)
    if away is not None:
        session.page.warn(away)
    session.page.result("sent/1", sent, _line(sent))


def _line(sent: Sent) -> str:
    if sent.duplicate:
        return f"Already sent to {sent.to} ({sent.id}); nothing new was sent."
    ahead = f", {sent.ahead} unread before it" if sent.ahead else ""
    return f"Sent to {sent.to} ({sent.id}{ahead})."


@examples("bullpen inbox alice --unread", "bullpen inbox --follow --mark-seen")
def inbox(
    session: Session,
    name: Annotated[
        str | None,
        argument(
            "Whose messages [default: yours, see --as]", "NAME", complete=completion.member_names
        ),
    ] = None,
    *,
    follow: Annotated[bool, flag("Keep showing new messages", "--follow")] = False,
    unread: Annotated[bool, flag("Show only unread messages", "--unread")] = False,
    history: Annotated[bool, flag("Include archived messages", "--history")] = False,
    mark_seen: Annotated[bool, flag("Mark shown messages as seen", "--mark-seen")] = False,
) -> None:
    """Show the messages of a member.

    Showing messages does not mark them as seen. An agent sees only its own messages.
    """

    def wanted(mailbox: Mailbox) -> tuple[Entry, ...]:
        return mailbox.unread if unread else mailbox.entries

    async def look(team: Team) -> None:
        owner = await session.identity.reads_mail_of(team, name)
        mailbox = await team.mailbox.read(owner, history=history)
        entries = wanted(mailbox)
        RecordViews(session.page).mailbox(mailbox, entries, name=owner)
        await seen(team, owner, entries)

    async def wait(team: Team) -> None:
        owner = await session.identity.reads_mail_of(team, name)
        async with aclosing(team.mailbox.follow(owner, history=history)) as arrivals:
            async for mailbox in arrivals:
                entries = wanted(mailbox)
                RecordViews(session.page).letters(mailbox, entries)
                await seen(team, owner, entries)

    async def seen(team: Team, owner: str, entries: tuple[Entry, ...]) -> None:
        if mark_seen and entries:
            # Mark as seen only what reached the reader.
            session.page.flush()
            await team.mailbox.mark(owner, [entry.id for entry in entries], "seen")

    if follow:
        session.goes_on("--follow")
    session.with_team(wait if follow else look)
