"""A small agent on the official SDK that does what real programs cannot be made to do.

It plays the part that its first argument names, and writes what it is told to `told.jsonl`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from acp import RequestError, run_agent, schema

UPDATES = "session/update"
AUTH = {"one login": ("api-key",), "two logins": ("api-key", "browser")}
"""How one can log in, in the parts that want it."""


class Tiny:
    """An agent that says "Done." unless its part is another."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.client: Any = None
        self.set_to_ask = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.steered = asyncio.Event()
        self.replaying: asyncio.Task[None] | None = None
        self.going_on: asyncio.Task[None] | None = None
        self.servers: list[Any] | None = None

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **more: Any) -> schema.InitializeResponse:
        told("initialize", **{key: dumped(value) for key, value in more.items()})
        return schema.InitializeResponse(
            protocol_version=9 if self.part == "version 9" else protocol_version,
            agent_capabilities=schema.AgentCapabilities(load_session=self.part != "no load"),
            agent_info=schema.Implementation(name="tiny", version="1"),
            auth_methods=[
                schema.AuthMethodAgent(id=name, name=name.title())
                for name in AUTH.get(self.part, ())
            ],
        )

    async def authenticate(self, method_id: str, **more: Any) -> None:
        told("authenticate", method=method_id)

    async def new_session(
        self, cwd: str, mcp_servers: list[Any] | None = None, **more: Any
    ) -> schema.NewSessionResponse:
        told("new", cwd=cwd)
        told("meta", meta=more)
        if self.part in AUTH and not was_told("authenticate"):
            raise RequestError.auth_required()
        if self.part == "late server":
            self.servers = mcp_servers
        else:
            self._connect(mcp_servers)
        return schema.NewSessionResponse(
            session_id="s-1", modes=self._modes(), config_options=self._options()
        )

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **more: Any
    ) -> schema.LoadSessionResponse:
        told("load", session=session_id)
        told("meta", meta=more)
        if self.part == "forgot":
            raise RequestError.resource_not_found(session_id)
        self._connect(mcp_servers)
        await self.say("What was said before.", session_id)
        self.replaying = asyncio.create_task(self._replay_late(session_id))
        return schema.LoadSessionResponse(modes=self._modes(), config_options=self._options())

    async def set_session_mode(self, session_id: str, mode_id: str, **more: Any) -> None:
        told("mode", mode=mode_id)
        if mode_id == "ask":
            self.set_to_ask.set()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **more: Any
    ) -> schema.SetSessionConfigOptionResponse:
        told("option", option=config_id, value=value)
        options = self._options("big" if self.part == "stubborn" else str(value))
        return schema.SetSessionConfigOptionResponse(config_options=options or [])

    async def cancel(self, session_id: str, **more: Any) -> None:
        told("cancel")
        self.cancelled.set()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Take a text into the running turn late, or never answer."""
        told("steering", text=params["prompt"][0]["text"])
        if self.part == "never steered":
            self.steered.set()
            await asyncio.sleep(3600)
        await asyncio.sleep(2.0)
        self.steered.set()
        return {"outcome": "injected"}

    async def prompt(
        self, session_id: str, prompt: list[Any], **more: Any
    ) -> schema.PromptResponse:
        again = was_told("answer") or was_told("load")
        told("prompt", text=prompt[0].text)
        self._connect(self.servers)
        if self.replaying is not None:
            await self.replaying
        play = PARTS.get(self.part)
        if play is None or (again and self.part not in ALWAYS):
            await self.say("Again." if again and play else "Done.", session_id)
            return ended()
        return await play(self, session_id)

    async def say(self, text: str, session: str = "s-1", message: str | None = None) -> None:
        block = schema.TextContentBlock(type="text", text=text)
        update = schema.AgentMessageChunk(
            session_update="agent_message_chunk", content=block, message_id=message
        )
        await self.client.session_update(session_id=session, update=update)

    async def ask(self, call: schema.ToolCallUpdate, *kinds: str) -> str | None:
        """Ask for permission; the kind of the answer, None for "cancelled"."""
        options = [schema.PermissionOption(option_id=kind, name=kind, kind=kind) for kind in kinds]
        answer = await self.client.request_permission(
            session_id="s-1", tool_call=call, options=options
        )
        chosen = getattr(answer.outcome, "option_id", None)
        told("answer", option=chosen)
        return None if chosen is None else str(chosen)

    async def _replay_late(self, session: str) -> None:
        """Some programs are not through with their replay when they have answered."""
        for _ in range(16):
            await asyncio.sleep(0.05)
            await self.say("And more.", session)

    def _connect(self, servers: list[Any] | None) -> None:
        """Start the servers as a client of MCP would; nothing is asked of them."""
        if self.part == "no server":
            return
        for server in servers or []:
            env = {**os.environ, **{each.name: each.value for each in server.env}}
            subprocess.Popen(
                [server.command, *server.args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=env,
            )

    def _modes(self) -> schema.SessionModeState:
        names = ("free", "ask", "plan")
        modes = [schema.SessionMode(id=name, name=name) for name in names]
        return schema.SessionModeState(current_mode_id="free", available_modes=modes)

    def _options(self, value: str = "big") -> list[Any] | None:
        if self.part == "no models":
            return None
        rows = [
            schema.SessionConfigSelectOption(value=name, name=name) for name in ("big", "small")
        ]
        return [
            schema.SessionConfigOptionSelect(
                id="model",
                name="Model",
                category="model",
                type="select",
                current_value=value,
                options=rows,
            )
        ]


def told(what: str, **data: Any) -> None:
    """Write down what was asked of the agent."""
    with open("told.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"what": what, **data}) + "\n")


def was_told(what: str) -> bool:
    """Whether it was asked that before, in this process or an earlier one."""
    return f'"what": "{what}"' in Path("told.jsonl").read_text("utf-8")


def dumped(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True) if hasattr(value, "model_dump") else value


def ended(stop: str = "end_turn", **meta: Any) -> schema.PromptResponse:
    return schema.PromptResponse(stop_reason=stop, field_meta=meta or None)


def call_of(kind: str, **more: Any) -> schema.ToolCallUpdate:
    return schema.ToolCallUpdate(tool_call_id="c-1", title="A call", kind=kind, **more)


def write(*paths: str) -> None:
    """Change files."""
    for path in paths:
        Path(path).write_text("written", "utf-8")


def start_command() -> None:
    """A command as programs start theirs: in a session of its own."""
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    told("child", pid=child.pid)


async def dies(agent: Tiny, session: str) -> schema.PromptResponse:
    """End in the middle of a turn; a process that takes the session up behaves."""
    await agent.say("I begin.")
    print("Out of cheese.", file=sys.stderr, flush=True)
    os._exit(3)


async def floods(agent: Tiny, session: str) -> schema.PromptResponse:
    for number in range(2_000):
        await agent.say(f"{number:05d}" + "x" * 1_019, message="m-1")
    return ended()


async def endless(agent: Tiny, session: str) -> schema.PromptResponse:
    """Talk for ever, and take no notice of anything."""
    while True:
        await agent.say("y" * 60_000, message="m-1")


async def babbles(agent: Tiny, session: str) -> schema.PromptResponse:
    update = {"sessionId": session, "update": {"sessionUpdate": "sings", "song": "la"}}
    broken = json.dumps({"jsonrpc": "2.0", "method": UPDATES, "params": update})
    for line in ("npm warn: this is no JSON", "[1, 2]", '"text"', "{", broken, ""):
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    await agent.say("Done.")
    return ended()


async def only_always(agent: Tiny, session: str) -> schema.PromptResponse:
    call = call_of("execute", raw_input={"command": "touch made"})
    await agent.ask(call, "allow_always", "reject_always")
    await agent.say("Done.")
    return ended()


async def two_paths(agent: Tiny, session: str) -> schema.PromptResponse:
    places = [schema.ToolCallLocation(path=path) for path in ("one.txt", "two.txt")]
    answer = await agent.ask(
        call_of("edit", locations=places), "allow_always", "allow_once", "reject_once"
    )
    if answer == "allow_once":
        write(*(place.path for place in places))
    await agent.say("Done.")
    return ended()


async def asks_by_id(agent: Tiny, session: str) -> schema.PromptResponse:
    """Tell of a call first, and ask for it by its id alone."""
    begun = schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id="c-1",
        title="Run it",
        kind="execute",
        status="pending",
        raw_input={"command": "touch made"},
    )
    await agent.client.session_update(session_id=session, update=begun)
    await agent.ask(schema.ToolCallUpdate(tool_call_id="c-1"), "allow_once", "reject_once")
    await agent.say("Done.")
    return ended()


async def asks_its_client(agent: Tiny, session: str) -> schema.PromptResponse:
    try:
        await agent.client.ext_method("tiny/unknown", {})
    except RequestError as error:
        told("unknown", code=error.code)
    # The SDK lets nobody send it, as it has no underscore; one program does.
    found = await agent.client._conn.send_request("craft/drainMidTurnQueue", {"sessionId": session})
    told("drained", messages=found["messages"])
    await agent.say("Done.")
    return ended()


async def deaf(agent: Tiny, session: str) -> schema.PromptResponse:
    """Take no notice of anything, and start a command in a group of its own."""
    start_command()
    await asyncio.sleep(3600)
    return ended()


async def steered(agent: Tiny, session: str) -> schema.PromptResponse:
    """Wait in silence until a text was taken into the turn, or came and was not taken."""
    await agent.say("Yes?")
    await agent.steered.wait()
    return ended()


async def careless(agent: Tiny, session: str) -> schema.PromptResponse:
    """End the turn when told to, and leave the command running."""
    start_command()
    await agent.cancelled.wait()
    return ended("cancelled")


async def other_model(agent: Tiny, session: str) -> schema.PromptResponse:
    await agent.say("Done.")
    return ended(quota={"model_usage": [{"model": "tiny-large-20260101"}]})


async def tells_its_context(agent: Tiny, session: str) -> schema.PromptResponse:
    for used, size in ((50_000, 200_000), (9, 0)):
        update = schema.UsageUpdate(session_update="usage_update", used=used, size=size)
        await agent.client.session_update(session_id=session, update=update)
    await agent.say("Done.")
    return ended()


async def tells_that_it_grows(agent: Tiny, session: str) -> schema.PromptResponse:
    update = schema.UsageUpdate(session_update="usage_update", used=int(time.time()), size=1 << 40)
    await agent.client.session_update(session_id=session, update=update)
    await agent.say("Done.")
    return ended()


async def leaves_its_mode(agent: Tiny, session: str) -> schema.PromptResponse:
    agent.set_to_ask.clear()
    update = schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id="free")
    await agent.client.session_update(session_id=session, update=update)
    await agent.set_to_ask.wait()
    await agent.say("Done.")
    return ended()


async def plans(agent: Tiny, session: str) -> schema.PromptResponse:
    text = schema.TextContentBlock(type="text", text="1. Paint.\n2. Let it dry.")
    content = schema.ContentToolCallContent(type="content", content=text)
    await agent.ask(call_of("switch_mode", content=[content]), "allow_once", "reject_once")
    await agent.say("Done.")
    return ended()


async def asks_and_waits(agent: Tiny, session: str) -> schema.PromptResponse:
    call = call_of("execute", raw_input={"command": "touch made"})
    if await agent.ask(call, "allow_once", "reject_once") is None:
        return ended("cancelled")
    await agent.say("Done.")
    return ended()


async def stops_at_a_no(agent: Tiny, session: str) -> schema.PromptResponse:
    """A refusal ends the turn, as in some programs."""
    call = call_of("execute", raw_input={"command": "touch made"})
    answer = await agent.ask(call, "allow_once", "reject_once")
    return ended("cancelled" if answer != "allow_once" else "end_turn")


async def insists(agent: Tiny, session: str) -> schema.PromptResponse:
    """Ask in every prompt, whatever the answer was."""
    return await stops_at_a_no(agent, session)


async def fails_once(agent: Tiny, session: str) -> schema.PromptResponse:
    told("answer", option=None)
    raise RequestError.internal_error({"details": "No such model"})


async def gives_up(agent: Tiny, session: str) -> schema.PromptResponse:
    await agent.say("I begin.")
    return ended("cancelled")


async def harmless_after(agent: Tiny, session: str) -> schema.PromptResponse:
    """Tell things after the turn that are no work: some programs do."""
    await agent.client.session_update(session_id=session, update=begun_call("c-late"))
    await agent.say("Done.")

    async def go_on() -> None:
        await agent.say(" And its last words.", message="late")
        await asyncio.sleep(0.4)
        for update in (
            schema.UsageUpdate(session_update="usage_update", used=900, size=1000),
            schema.SessionInfoUpdate(session_update="session_info_update", title="A title"),
            schema.AvailableCommandsUpdate(
                session_update="available_commands_update", available_commands=[]
            ),
            schema.ToolCallProgress(
                session_update="tool_call_update", tool_call_id="c-late", status="completed"
            ),
            schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id="free"),
        ):
            await agent.client.session_update(session_id=session, update=update)
        told("went on")

    agent.replaying = asyncio.create_task(go_on())
    return ended()


def goes_on(what: str) -> Callable[[Tiny, str], Awaitable[schema.PromptResponse]]:
    """Work by itself after the turn, as programs do with goals and schedules."""

    async def play(agent: Tiny, session: str) -> schema.PromptResponse:
        async def go_on() -> None:
            await asyncio.sleep(0.3)
            for number in range(1_000):
                told("request", number=number)
                await work(agent, session, what, number)
                update = schema.UsageUpdate(
                    session_update="usage_update", used=1_000 + number, size=9_000
                )
                await agent.client.session_update(session_id=session, update=update)
                await asyncio.sleep(0.1)

        agent.going_on = asyncio.create_task(go_on())
        await agent.say("Done.")
        return ended()

    return play


async def work(agent: Tiny, session: str, what: str, number: int) -> None:
    """What a request leads to."""
    if what == "asks":
        call = call_of("execute", raw_input={"command": "touch made"})
        if await agent.ask(call, "allow_once", "reject_once") == "allow_once":
            write("made")
        return
    text = schema.TextContentBlock(type="text", text="More.")
    update = {
        "talks": schema.AgentMessageChunk(session_update="agent_message_chunk", content=text),
        "thinks": schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=text),
        "calls": begun_call(f"c-{number}"),
    }[what]
    await agent.client.session_update(session_id=session, update=update)


def begun_call(call: str) -> schema.ToolCallStart:
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=call,
        title="touch made",
        kind="execute",
        status="in_progress",
        raw_input={"command": "touch made"},
    )


async def runs_long(agent: Tiny, session: str) -> schema.PromptResponse:
    """A command that says nothing for a while."""
    await agent.client.session_update(session_id=session, update=begun_call("c-long"))
    await asyncio.sleep(2.0)
    over = schema.ToolCallProgress(
        session_update="tool_call_update", tool_call_id="c-long", status="completed"
    )
    await agent.client.session_update(session_id=session, update=over)
    await agent.say("Done.")
    return ended()


async def delegates(agent: Tiny, session: str) -> schema.PromptResponse:
    """A call to a subagent that waits for an answer which nobody is asked for."""
    call = begun_call("c-sub").model_copy(update={"kind": "other", "title": "A subagent"})
    await agent.client.session_update(session_id=session, update=call)
    await agent.cancelled.wait()
    return ended("cancelled")


async def reuses_an_id(agent: Tiny, session: str) -> schema.PromptResponse:
    """Call a tool of the team, and then ask for a command by the same id."""
    for status in ("pending", "completed"):
        begun = begun_call("c-1").model_copy(
            update={
                "status": status,
                "kind": "other",
                "raw_input": {"subject": "Paint"},
                "field_meta": {"toolName": "mcp__bullpen__TaskCreate"},
            }
        )
        await agent.client.session_update(session_id=session, update=begun)
    await agent.ask(call_of("execute", raw_input={"command": "touch made"}), "allow_once")
    await agent.say("Done.")
    return ended()


def print_all(stream: int, data: bytes) -> None:
    os.set_blocking(stream, True)
    while data:
        data = data[os.write(stream, data) :]
    os.set_blocking(stream, False)


async def shouts(agent: Tiny, session: str) -> schema.PromptResponse:
    """Flood both outputs with short lines and one giant one, and tell an infinite cost."""
    print_all(2, b"x\n" * 500_000 + b"The last words.\n")
    print_all(1, b"no JSON\n" * 100_000 + b"y" * 20_000_000 + b"\n")
    cost = {"amount": float("inf"), "currency": "USD"}
    update = {"sessionUpdate": "usage_update", "used": 5, "size": 9, "cost": cost}
    params = {"sessionId": session, "update": update}
    message = {"jsonrpc": "2.0", "method": UPDATES, "params": params}
    print_all(1, json.dumps(message).encode() + b"\n")
    await agent.say("Done.")
    return ended()


ALWAYS = ("insists", "goes on: always", "tells that it grows")
"""Parts that are played in every turn."""

PARTS: dict[str, Callable[[Tiny, str], Awaitable[schema.PromptResponse]]] = {
    "dies": dies,
    "floods": floods,
    "endless": endless,
    "babbles": babbles,
    "only always": only_always,
    "two paths": two_paths,
    "by id": asks_by_id,
    "extension": asks_its_client,
    "deaf": deaf,
    "steered late": steered,
    "never steered": steered,
    "careless": careless,
    "other model": other_model,
    "tells its context": tells_its_context,
    "tells that it grows": tells_that_it_grows,
    "leaves its mode": leaves_its_mode,
    "plans": plans,
    "asks": asks_and_waits,
    "stops at a no": stops_at_a_no,
    "gives up": gives_up,
    "fails once": fails_once,
    "insists": insists,
    "harmless after": harmless_after,
    **{f"goes on: {what}": goes_on(what) for what in ("talks", "thinks", "calls", "asks")},
    "goes on: always": goes_on("talks"),
    "runs long": runs_long,
    "delegates": delegates,
    "reuses an id": reuses_an_id,
    "shouts": shouts,
}


if __name__ == "__main__":
    part: Any = Tiny(sys.argv[1])
    asyncio.run(run_agent(part))
