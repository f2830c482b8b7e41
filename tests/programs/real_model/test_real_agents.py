"""Agents in processes of their own on a real model: every turn ends, and every token is booked.

The gate plays a few turns, the nightly run fifty.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import anyio
import pytest

from bullpen.protocol.agent import Usage
from bullpen.protocol.names import LEAD
from support.crews import eventually
from support.offices import Place, opened, view

from .real_server import real_model

pytest.importorskip("xllamacpp", reason="needs the group real-model")

NIGHTLY = os.environ.get("BULLPEN_NIGHTLY") == "1"
TURNS = 25 if NIGHTLY else 2
# Besides this one it has all tools of a teammate: it thinks poorly, and may try any of them.
TOOLS = ("Read",)
WINDOW = 8_192
ANSWER = 60
TURN_S = 280.0
AGENTS = {"ann": "llamacpp:smollm2", "bob": "openai-chat:an-alias"}


async def _work(place: Place, name: str) -> None:
    """Send one message after another; each is read in a turn that ends."""
    for number in range(TURNS):
        await place.team.mailbox.send(name, f"What is {number} + 1?", sender=LEAD)

        async def is_over() -> bool:
            unread = (await place.team.mailbox.unread())[name]
            return not unread and (await view(place, name)).state == "idle"

        await eventually(is_over, within_s=TURN_S)


async def _usage(place: Place, name: str) -> Usage:
    return (await place.team.agents.get(name))[1].usage


async def test_agents_on_a_real_model_end_every_turn_and_book_every_token(tmp_path: Path) -> None:
    began = time.monotonic()
    with real_model(window=WINDOW, slots=len(AGENTS)) as model:
        async with opened(tmp_path, **model.env) as place:
            for name, named in AGENTS.items():
                await place.spawn(
                    name,
                    driver="native",
                    script=None,
                    model=named,
                    tools=TOOLS,
                    model_options={"max_output": ANSWER},
                )
            async with anyio.create_task_group() as group:
                for name in AGENTS:
                    group.start_soon(_work, place, name)
            views = [await view(place, name) for name in AGENTS]
            used = [await _usage(place, name) for name in AGENTS]
            await place.supervisor.stop_all(by=LEAD)
            assert {(await view(place, name)).end for name in AGENTS} == {"stopped"}
            assert place.processes() == []
    booked = (
        sum(usage.input_tokens + usage.cache_read_tokens for usage in used),
        sum(usage.output_tokens for usage in used),
    )
    turns = sum(usage.turns for usage in used)
    print(
        f"{turns} turns, {sum(usage.requests for usage in used)} requests, {model.tokens} tokens,"
        f" {time.monotonic() - began:.0f} s"
    )
    assert turns >= TURNS * len(AGENTS)
    assert [each.state for each in views] == ["idle"] * len(AGENTS)
    assert set(model.statuses) == {200}
    assert booked == model.tokens
    assert not any(usage.estimated for usage in used)
