"""Resources, change notices and prompts, in both protocols and over both transports."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.shared.subscriptions import ResourceUpdated

from bullpen.doors.mcp.prompts import PROMPTS
from bullpen.protocol.names import LEAD

if TYPE_CHECKING:
    from support.doors.mcp_house import House, Mode

ROSTER, TASKS, MAILBOX = (f"bullpen://team/alpha/{part}" for part in ("roster", "tasks", "mailbox"))
NOTICE_S = 60


@asynccontextmanager
async def ann(house: House, way: str, mode: Mode, handler: Any = None) -> AsyncIterator[Client]:
    if way == "stdio":
        async with house.program(
            "--team", "alpha", "--as", "ann", mode=mode, handler=handler
        ) as client:
            yield client
        return
    async with (
        house.served() as url,
        house.visitor(url, house.token("ann"), mode=mode, handler=handler) as client,
    ):
        yield client


async def read(client: Client, uri: str) -> Any:
    (content,) = (await client.read_resource(uri)).contents
    assert content.mime_type == "application/json"
    return json.loads(content.text)  # type: ignore[union-attr]


async def test_a_member_reads_its_team_and_its_own_mailbox_and_marks_nothing(
    house: House,
) -> None:
    await house.team.tasks.add("Parse", by=LEAD)
    await house.team.mailbox.send("ann", "For Ann", sender="bob", summary="a word")
    await house.team.mailbox.send("bob", "For Bob", sender="ann")
    async with ann(house, "stdio", "auto") as client:
        listed = {str(each.uri) for each in (await client.list_resources()).resources}
        assert listed == {ROSTER, TASKS, MAILBOX}
        templates = (await client.list_resource_templates()).resource_templates
        assert {each.uri_template for each in templates} == {
            uri.replace("alpha", "{team}") for uri in listed
        }
        roster = await read(client, ROSTER)
        assert [each["name"] for each in roster["members"]] == [LEAD, "ann", "bob"]
        assert [each["unread"] for each in roster["members"]] == [0, 1, 1]
        assert [each["subject"] for each in (await read(client, TASKS))["tasks"]] == ["Parse"]
        (message,) = (await read(client, MAILBOX))["messages"]
        assert (message["from"], message["text"], message["summary"], message["state"]) == (
            "bob",
            "For Ann",
            "a word",
            "stored",
        )
        for uri in ("bullpen://team/beta/roster", "bullpen://team/alpha/config", "file:///etc/x"):
            with pytest.raises(MCPError, match="There is no resource"):
                await client.read_resource(uri)
    assert await house.mail_of("ann") == [("bob", "For Ann", "stored")]


async def change_everything(house: House) -> None:
    await house.team.mailbox.send("bob", "Not for Ann", sender=LEAD)
    await house.team.mailbox.send("ann", "For Ann", sender=LEAD)
    await house.team.tasks.add("Parse", by=LEAD)
    await house.team.roster.join("cy", by=LEAD)


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_client_that_listens_is_told_of_every_change(house: House, way: str) -> None:
    async with ann(house, way, "auto") as client:
        wanted = {ROSTER, TASKS, MAILBOX}
        async with client.listen(resource_subscriptions=sorted(wanted)) as changes:
            await change_everything(house)
            with anyio.fail_after(NOTICE_S):
                async for change in changes:
                    assert isinstance(change, ResourceUpdated)
                    wanted.discard(change.uri)
                    if not wanted:
                        break


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_client_that_subscribed_is_told_of_every_change(house: House, way: str) -> None:
    heard: set[str] = set()
    done = anyio.Event()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.add(str(message.params.uri))
            if heard == {ROSTER, TASKS, MAILBOX}:
                done.set()

    async with ann(house, way, "legacy", hear) as client:
        for uri in (ROSTER, TASKS, MAILBOX):
            await client.subscribe_resource(uri)
        await change_everything(house)
        with anyio.fail_after(NOTICE_S):
            await done.wait()


async def test_nobody_hears_of_others_mail(house: House) -> None:
    async with (
        ann(house, "stdio", "auto") as client,
        client.listen(resource_subscriptions=[MAILBOX, TASKS]) as changes,
    ):
        await house.team.mailbox.send("bob", "Not for Ann", sender=LEAD)
        await house.team.tasks.add("Parse", by=LEAD)
        with anyio.fail_after(NOTICE_S):
            # What comes after the other's mail is heard of; that mail is not.
            assert await anext(aiter(changes)) == ResourceUpdated(uri=TASKS)
            await house.team.mailbox.send("ann", "For Ann", sender=LEAD)
            assert await anext(aiter(changes)) == ResourceUpdated(uri=MAILBOX)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_prompts_teach_who_asks(house: House, mode: Mode) -> None:
    async with ann(house, "stdio", mode) as client:
        listed = (await client.list_prompts()).prompts
        assert [each.name for each in listed] == [each.name for each in PROMPTS]
        (message,) = (await client.get_prompt("teammate")).messages
        text = message.content.text  # type: ignore[union-attr]
        assert text.startswith("You are ann")
        assert "alpha" in text
        assert "bob" in text
        with pytest.raises(MCPError, match="There is no prompt"):
            await client.get_prompt("nobody")
