"""`bullpen acp` over standard input and output, for the program that started it."""

from __future__ import annotations

import anyio

from bullpen.app.app import App
from bullpen.doors.acp.sessions import Sessions
from bullpen.doors.acp.team_start import TeamStart
from bullpen.doors.acp.wire import LINE_BYTES_MAX, converse
from bullpen.doors.actions.identity import KnownPerson
from bullpen.doors.standard_streams import end_by_signal, standard_streams
from bullpen.errors import one_error


async def serve_stdio(app: App, start: TeamStart) -> None:
    """Answer the client until it closes its end or a signal comes, then stop all agents.

    Raises Refused: this process belongs to an agent (not_a_person).
    """
    identity = await KnownPerson.here(app.settings, "run `bullpen acp`")
    reader, writer = await standard_streams(LINE_BYTES_MAX, command="bullpen acp")
    with one_error():
        async with anyio.create_task_group() as group:
            group.start_soon(end_by_signal, group.cancel_scope.cancel)
            await converse(Sessions(app, start, identity, group), reader, writer)
            group.cancel_scope.cancel()
