"""An editor with the official Python SDK, which starts `bullpen acp` as its agent."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import acp
import anyio
from acp import schema
from acp.stdio import spawn_agent_process

from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.app.app import App
from bullpen.app.settings import Settings
from bullpen.protocol.names import LEAD

BULLPEN = str(Path(sys.executable).parent / "bullpen")
DEADLINE_S = 240.0
"""Only guards against hanging: on a busy machine a process takes long to start."""

SCRIPT = """
[[agents.team-lead.turns]]
when = "mail"
contains = "Begin"
steps = [
  {tool = "TaskCreate", input = {subject = "Write the parser", description = "p"}},
  {tool = "Bash", input = {command = "touch made"}, may_fail = true},
  {say = "Which grammar?"},
]
[[agents.team-lead.turns]]
when = "mail"
contains = "wait"
steps = [{say = "I wait."}, {hang = true}]
[[agents.team-lead.turns]]
when = "mail"
contains = "enough"
steps = [
  {tool = "Finish", input = {summary = "It is planned.", override_reason = "you said enough"}},
  {say = "Finished."},
]
[[agents.team-lead.turns]]
repeat = true
steps = [{say = "I heard you."}]
"""


class Heard:
    """What the client of the SDK was told and asked, in order."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[schema.ToolCallUpdate] = []
        self.options: list[list[str]] = []
        # The kind of the answer to every question; None waits until it is cancelled.
        self.answer: str | None = "allow_once"

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        told = update.model_dump(by_alias=True, exclude_none=True)
        self.updates.append((session_id, told))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call)
        self.options.append([each.kind for each in options])
        if self.answer is None:
            await asyncio.sleep(DEADLINE_S)
        chosen = next(each for each in options if each.kind == self.answer)
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    def on_connect(self, conn: Any) -> None:
        """Nothing to prepare."""

    def of(self, kind: str, session: str | None = None) -> list[dict[str, Any]]:
        return [
            told
            for name, told in self.updates
            if told["sessionUpdate"] == kind and session in (None, name)
        ]

    def words(self, kind: str = "agent_message_chunk", session: str | None = None) -> str:
        return "".join(told["content"]["text"] for told in self.of(kind, session))


class Talk:
    """A connection to one process of `bullpen acp`."""

    def __init__(self, client: Any, process: asyncio.subprocess.Process, heard: Heard) -> None:
        self.client, self.process, self.heard = client, process, heard

    async def open(self, cwd: Path) -> str:
        await anyio.Path(cwd).mkdir(exist_ok=True)
        opened = await self.client.new_session(cwd=str(cwd), mcp_servers=[])
        return str(opened.session_id)

    def leave(self) -> None:
        """Close its end, as an editor does that ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def say(self, session: str, text: str) -> str:
        with anyio.fail_after(DEADLINE_S):
            answer = await self.client.prompt(session_id=session, prompt=[acp.text_block(text)])
        return str(answer.stop_reason)


class Editor:
    """Starts the program with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.script = folder / "script.toml"
        self.script.write_text(SCRIPT, encoding="utf-8")
        self.project.mkdir()
        self.env = {
            **os.environ,
            "HOME": str(folder),
            "BULLPEN_HOME": str(self.home),
            "BULLPEN_CONFIG": str(folder / "config.toml"),
        }
        self.command = ["--driver", "scripted", "--script", str(self.script)]

    @asynccontextmanager
    async def talk(self, *more: str) -> AsyncIterator[Talk]:
        heard = Heard()
        words = [*self.command, *more]
        async with spawn_agent_process(
            cast("acp.Client", heard),
            BULLPEN,
            "acp",
            *words,
            env=self.env,
            transport_kwargs={"stderr": None},
        ) as (client, process):
            with anyio.fail_after(DEADLINE_S):
                await client.initialize(protocol_version=acp.PROTOCOL_VERSION)
            talk = Talk(client, process, heard)
            yield talk
            talk.leave()
            with anyio.fail_after(DEADLINE_S):
                assert await process.wait() == 0

    async def agents(self, team: str) -> list[AgentView]:
        async with App(Settings(home=self.home, team=None, agent=LEAD), self.env) as app:
            return await app.supervisor(team).agents()

    async def ends(self, team: str) -> list[str | None]:
        return [view.end for view in await self.agents(team) if view.driver is not None]
