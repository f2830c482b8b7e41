"""A machine is cut off from the network: it reads on, says how old that is, and writes nothing."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.nats_chaos.network import MACHINES, Network, network, why_not

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

_PATIENCE_S = 60.0


async def insist(net: Network, number: int, name: str, what: str = "") -> dict[str, Any]:
    """Ask again until it is done, as whoever wants something does."""
    deadline = time.monotonic() + _PATIENCE_S
    while "error" in (answer := await net.ask(number, name, what)):
        assert time.monotonic() < deadline, answer
        await asyncio.sleep(0.2)
    return answer


async def read_until_it_says_stale(net: Network, number: int) -> list[dict[str, Any]]:
    """All reads up to the first that says of itself that it is not how the team is now."""
    answers: list[dict[str, Any]] = []
    deadline = time.monotonic() + _PATIENCE_S
    while not answers or not answers[-1]["problems"]:
        assert time.monotonic() < deadline, "it never says that it knows no more"
        answers.append(await net.ask(number, "read"))
    return answers


async def test_a_machine_that_is_cut_off_is_read_only_and_says_so_and_heals(
    tmp_path: Path,
) -> None:
    async with network(tmp_path) as net:
        await insist(net, 0, "prepare")
        for number in range(MACHINES):
            await insist(net, number, "commit", str(number + 1))
            await insist(net, number, "send", f"before-{number}")
        known = await insist(net, 0, "read")
        cut = int((await insist(net, 0, "leader"))["leader"].removeprefix("m"))
        rest = [number for number in range(MACHINES) if number != cut]
        await insist(net, cut, "read")
        net.cut(cut)

        went_on, reads = await asyncio.gather(
            insist(net, rest[0], "commit", "10"), read_until_it_says_stale(net, cut)
        )
        for answer in reads:
            assert answer["tasks"] == known["tasks"], "a stale answer is whole all the same"
        silent = [answer for answer in reads[:-1] if answer["at"] > went_on["at"] + went_on["took"]]
        assert silent == [], "it was behind the others, and did not say so"
        assert "s ago" in reads[-1]["problems"][0]

        refused = await net.ask(cut, "commit", "20")
        assert refused["error"] == "Unavailable"
        for number in rest:
            await insist(net, number, "commit", str(11 + number))
            await insist(net, number, "send", f"during-{number}")
            assert (await net.ask(number, "read"))["problems"] == []
        assert (await net.ask(cut, "read"))["problems"] != []

        net.heal(cut)
        await insist(net, cut, "commit", "30")
        await assert_all_equal(net, sent=[*_each("before", range(3)), *_each("during", rest)])


def _each(when: str, numbers: Any) -> list[str]:
    return [f"{when}-{number}" for number in numbers]


async def assert_all_equal(net: Network, sent: list[str]) -> None:
    portraits = [await insist(net, number, "portray") for number in range(MACHINES)]
    assert portraits[0]["portrait"] == portraits[1]["portrait"] == portraits[2]["portrait"]
    assert portraits[0]["ops"] == portraits[1]["ops"] == portraits[2]["ops"]
    counts = Counter(op for op in portraits[0]["ops"] if op.startswith("put."))
    assert set(counts.values()) == {1}
    acknowledged = {"put.1", "put.2", "put.3", "put.10", "put.30"}
    assert acknowledged <= set(counts)
    mail = [row[0] for row in portraits[0]["portrait"]["mail"]["ann"]]
    assert mail == sent
