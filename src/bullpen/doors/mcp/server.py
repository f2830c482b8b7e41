"""The MCP server of a team: tools, resources and prompts, each for the member that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from anyio.abc import TaskGroup
from mcp import types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from bullpen.agents.drivers.tool_server.mcp_server import SERVER_NAME, described
from bullpen.agents.tools.toolbox import answer
from bullpen.doors.mcp import resources
from bullpen.doors.mcp.desk import MemberDesk
from bullpen.doors.mcp.member import ConnectedMember
from bullpen.doors.mcp.member_tools import READS, WAIT_FOR_MAIL
from bullpen.doors.mcp.prompts import PROMPTS, render
from bullpen.errors import BullpenError, NotFound
from bullpen.team.lookup import listed

Context = ServerRequestContext[Any, Any]
FindMember = Callable[[Context], ConnectedMember]
"""Finds the member that makes a request. The content of the request has no say in it."""

INSTRUCTIONS = (
    "Tools to work in a team of agents: tasks, messages, requests. The prompts `lead` and"
    " `teammate` explain how. Teammates see only what you send with these tools. Only WaitForMail"
    " gets your mail."
)

# The first request of a client, in the older and in the present protocol.
_BEGINNINGS = ("initialize", "server/discover")
_SENDERS_SHOWN_MAX = 5


def team_server(find: FindMember, group: Callable[[], TaskGroup]) -> Server:
    """A server that answers each request for the member that `find` returns."""
    answers = _Answers(find, group)
    server = Server(
        SERVER_NAME,
        version=metadata.version("bullpen"),
        instructions=INSTRUCTIONS,
        on_list_tools=answers.list_tools,
        on_call_tool=answers.call_tool,
        on_list_resources=answers.list_resources,
        on_list_resource_templates=answers.list_resource_templates,
        on_read_resource=answers.read_resource,
        on_subscribe_resource=answers.subscribe,
        on_unsubscribe_resource=answers.unsubscribe,
        on_subscriptions_listen=answers.listen,
        on_list_prompts=answers.list_prompts,
        on_get_prompt=answers.get_prompt,
    )
    server.middleware.append(answers.receive)
    return server


class _Answers:
    def __init__(self, find: FindMember, group: Callable[[], TaskGroup]) -> None:
        self._find = find
        self._group = group

    async def receive(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Connect a member to its team with its first request, whatever that is."""
        if ctx.request_id is None:
            return await call_next(ctx)
        member = self._find(ctx)
        with member.busy():
            if ctx.method in _BEGINNINGS:
                member.desk.new_client()
            with _errors_told():
                await member.arrive()
            return await call_next(ctx)

    async def list_tools(self, context: Context, params: object) -> types.ListToolsResult:
        tools = []
        for tool in self._find(context).tools:
            hints = types.ToolAnnotations(read_only_hint=tool.name in READS)
            tools.append(described(tool).model_copy(update={"annotations": hints}))
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        member = self._find(context)
        desk = member.desk
        try:
            if desk.is_bound:
                await desk.acknowledge()
            text, failed = await answer(member.tools, params.name, params.arguments or {}, desk)
            if desk.leaving is not None:
                await member.withdraw()
        except BullpenError as error:
            text, failed = str(error), True
        texts = [text]
        if params.name == WAIT_FOR_MAIL:
            desk.hand_over()
        # In a separate block, because the answer may be JSON.
        texts += await _unread(desk, of=WAIT_FOR_MAIL if params.name == WAIT_FOR_MAIL else None)
        content: list[types.ContentBlock] = [
            types.TextContent(type="text", text=each) for each in texts
        ]
        return types.CallToolResult(content=content, is_error=failed)

    async def list_resources(self, context: Context, params: object) -> types.ListResourcesResult:
        desk = self._find(context).desk
        if not desk.is_bound:
            return types.ListResourcesResult(resources=[])
        found = [
            types.Resource(
                name=part,
                uri=resources.uri_of(desk.team.name, part),
                description=about,
                mime_type="application/json",
            )
            for part, about in resources.PARTS.items()
        ]
        return types.ListResourcesResult(resources=found)

    async def list_resource_templates(
        self, context: Context, params: object
    ) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(
                name=part,
                uri_template=resources.uri_of("{team}", part),
                description=about,
                mime_type="application/json",
            )
            for part, about in resources.PARTS.items()
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        with _errors_told():
            text = await resources.read(self._find(context).desk, uri)
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="application/json", text=text)]
        )

    async def subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        notices = self._find(context).notices
        await notices.subscribe(context.session, str(params.uri), self._group())
        return types.EmptyResult()

    async def unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._find(context).notices.unsubscribe(str(params.uri))
        return types.EmptyResult()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        return await self._find(context).notices.listen(context, params, self._group())

    async def list_prompts(self, context: Context, params: object) -> types.ListPromptsResult:
        found = [
            types.Prompt(name=each.name, title=each.title, description=each.description)
            for each in PROMPTS
        ]
        return types.ListPromptsResult(prompts=found)

    async def get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        desk = self._find(context).desk
        with _errors_told():
            members = [member.name for member in await desk.team.roster.list()]
            text = render(params.name, team=desk.team.name, member=desk.agent, members=members)
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def _unread(desk: MemberDesk, *, of: str | None) -> list[str]:
    """One line about unread mail, if there is any."""
    if not desk.is_bound or desk.leaving is not None:
        return []
    try:
        waiting = await desk.unread()
    except BullpenError as error:
        return [f"Cannot read your mailbox: {error}"]
    if not waiting:
        return []
    senders = dict.fromkeys(entry.message.sender for entry in waiting)
    named = listed(senders, shown_max=_SENDERS_SHOWN_MAX)
    unread = f"{len(waiting)} unread message{'' if len(waiting) == 1 else 's'}"
    again = "again " if of == WAIT_FOR_MAIL else ""
    return [f"You have {unread} from {named}. Call WaitForMail {again}to read."]


@contextmanager
def _errors_told() -> Iterator[None]:
    """Turn our errors into those of the protocol."""
    try:
        yield
    except BullpenError as error:
        code = types.INVALID_PARAMS if isinstance(error, NotFound) else types.INVALID_REQUEST
        raise MCPError(code, str(error)) from error
