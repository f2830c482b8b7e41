"""The MCP server of a team: tools, resources and prompts, each for the member that asks."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

from anyio.abc import TaskGroup
from mcp import types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from bullpen.agents.tools.box import call as call_tool
from bullpen.agents.tools.serve import SERVER_NAME, described
from bullpen.errors import BullpenError, NotFound
from bullpen.mcp import resources
from bullpen.mcp.desk import MemberDesk
from bullpen.mcp.prompts import PROMPTS, render
from bullpen.mcp.seat import Seat
from bullpen.mcp.tools import READS, WAIT_FOR_MAIL

Context = ServerRequestContext[Any, Any]
FindSeat = Callable[[Context], Seat]
"""Whose request it is. Nothing in the request itself can choose."""

INSTRUCTIONS = (
    "Tools to work in a team of agents: tasks, messages, requests. The prompts `lead` and"
    " `teammate` say how. What you say outside of these tools reaches no teammate, and nothing"
    " but WaitForMail brings you mail."
)

# A client that begins says one of these first, in the older and in the present protocol.
_BEGINNINGS = ("initialize", "server/discover")
_SENDERS_SHOWN_MAX = 5


def team_server(find: FindSeat, group: Callable[[], TaskGroup]) -> Server:
    """A server whose every request is made by the member that `find` says."""
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
    def __init__(self, find: FindSeat, group: Callable[[], TaskGroup]) -> None:
        self._find = find
        self._group = group

    async def receive(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Let a member arrive with its first request, whatever that is."""
        if ctx.request_id is None:
            return await call_next(ctx)
        seat = self._find(ctx)
        with seat.busy():
            if ctx.method in _BEGINNINGS:
                seat.desk.new_client()
            try:
                await seat.arrive()
            except BullpenError as error:
                raise _told(error) from error
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
        seat = self._find(context)
        desk = seat.desk
        try:
            if desk.is_bound:
                await desk.acknowledge()
            text, failed = await call_tool(seat.tools, params.name, params.arguments or {}, desk)
            if desk.leaving is not None:
                await seat.withdraw()
        except BullpenError as error:
            text, failed = str(error), True
        texts = [text]
        if params.name == WAIT_FOR_MAIL:
            desk.hand_over()
        # Apart from the answer, which may be JSON.
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
        try:
            text = await resources.read(self._find(context).desk, uri)
        except BullpenError as error:
            raise _told(error) from error
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
        try:
            members = [member.name for member in await desk.team.roster.list()]
            text = render(params.name, team=desk.team.name, member=desk.agent, members=members)
        except BullpenError as error:
            raise _told(error) from error
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def _unread(desk: MemberDesk, *, of: str | None) -> list[str]:
    """One line on the mail that waits, if some does."""
    if not desk.is_bound or desk.leaving is not None:
        return []
    try:
        waiting = await desk.unread()
    except BullpenError as error:
        return [f"Your mailbox cannot be read: {error}"]
    if not waiting:
        return []
    senders = list(dict.fromkeys(entry.message.sender for entry in waiting))
    more = len(senders) - _SENDERS_SHOWN_MAX
    named = ", ".join(senders[:_SENDERS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    count = "1 message" if len(waiting) == 1 else f"{len(waiting)} messages"
    again = "again " if of == WAIT_FOR_MAIL else ""
    return [f"You have {count} unread, from {named}: call WaitForMail {again}to read."]


def _told(error: BullpenError) -> MCPError:
    code = types.INVALID_PARAMS if isinstance(error, NotFound) else types.INVALID_REQUEST
    return MCPError(code, str(error))
