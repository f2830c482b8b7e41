"""Starts the members of a team file at the same time: some programs take long to become ready.

If the team is watched, members that wait for room do not delay the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.supervisor.admission import ROOM_S, RoomWait, WaitsForRoom
from bullpen.agents.work.tree_at_spawn import WorkspaceRequest
from bullpen.errors import BullpenError
from bullpen.protocol.agent import WorkspaceKind
from bullpen.protocol.names import LEAD
from bullpen.runs.teamfile.read import TeamFile
from bullpen.runs.teamfile.tables import MemberTable

T = TypeVar("T")

WATCHED_ROOM_S = 12 * 3600.0
"""How long a member of a watched team may wait for room."""


@dataclass(frozen=True, slots=True)
class MemberStarts:
    """How members are started. Without `late`, a start ends when all are ready."""

    # The task group for members that wait for room.
    late: TaskGroup | None = None
    tell: Callable[[str], None] = lambda line: None

    async def together(
        self, starts: Mapping[str, Callable[[RoomWait], Awaitable[T]]]
    ) -> tuple[list[T], list[BullpenError]]:
        """Start members by name. Returns the results of those that need not wait for room."""
        started: dict[str, T] = {}
        errors: list[BullpenError] = []
        settled = {name: anyio.Event() for name in starts}
        waiting: set[str] = set()

        def waits(event: WaitsForRoom) -> None:
            self.tell(str(event))
            if self.late is not None and event.agent in settled:
                waiting.add(event.agent)
                settled[event.agent].set()

        room = RoomWait(ROOM_S if self.late is None else WATCHED_ROOM_S, waits)

        async def start_one(name: str, start: Callable[[RoomWait], Awaitable[T]]) -> None:
            try:
                started[name] = await start(room)
            except BullpenError as error:
                if name in waiting:
                    self.tell(f"{name} was not started: {error}")
                else:
                    errors.append(error)
            finally:
                settled[name].set()

        async with nullcontext(self.late) if self.late else anyio.create_task_group() as group:
            for name, begin in starts.items():
                group.start_soon(start_one, name, begin)
            for event in settled.values():
                await event.wait()
        return [started[name] for name in starts if name in started], errors


def spawn_request(file: TeamFile, member: MemberTable, cwd: str) -> SpawnRequest:
    """Return how a member of a team file is spawned for work in a directory."""
    leads = member.name == LEAD
    kind = file.workspace_kind(member)
    apart = kind == "shared" and file.kind_asked(member) is None
    return SpawnRequest(
        driver=member.driver,
        backend=member.backend,
        cwd=cwd,
        role=file.role(member),
        model=member.model,
        prompt=file.team.goal if leads else member.prompt,
        script=None if member.script is None else str(file.folder / member.script),
        command=member.command,
        mode=member.mode,
        policy=member.policy(file.folder),
        claims=not leads,
        env=member.env,
        on=member.labels,
        respawn=member.respawn,
        workspace=_workspace(file, member, kind),
        isolated=_workspace(file, member, "worktree") if apart else None,
        skills=member.skills,
        tools=member.tools,
        mcp_servers=file.mcp_servers,
        after_edit=file.after_edit,
        search_url=file.web.search_url,
        models={name: table.model_dump(exclude_none=True) for name, table in file.models.items()},
        small_model=member.small_model,
        effort=member.effort,
        strict_model=member.strict_model,
    )


def _workspace(file: TeamFile, member: MemberTable, kind: WorkspaceKind) -> WorkspaceRequest | None:
    """Return the worktree of a member, set up as the file says."""
    table, merge = file.workspace, file.merge
    if kind == "shared" and (member.role is None or file.kind_asked(member) is None):
        # A role may want a worktree; only for that, `shared` has to be stated.
        return None
    return WorkspaceRequest(
        kind=kind,
        team=file.team.name,
        agent=member.name,
        root=None if table.root is None else str(file.folder / table.root),
        base=None if merge is None else merge.target,
        remote=table.remote,
        setup=table.setup,
        setup_s=table.setup_timeout_s,
        dirty=table.dirty,
    )
