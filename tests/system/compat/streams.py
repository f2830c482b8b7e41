"""The streams of a server as lines of JSON, and a server that has them again.

Every message keeps its sequence: logs name the sequence of the message before, and snapshots those
of the parts of the history. Where a message was removed before the recording, one that fills its
place is stored and removed again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import anyio
import nats
from nats.aio.client import Client

API = "$JS.API"
FILLER = "filler"

_NO_MESSAGE = 10037
_DEADLINE_S = 30


async def dump(url: str) -> list[dict[str, Any]]:
    """Each stream with its form, followed by its messages; messages in memory are left out."""
    nc = await nats.connect(url)
    rows: list[dict[str, Any]] = []
    for name in sorted((await _ask(nc, "STREAM.NAMES"))["streams"] or ()):
        info = await _ask(nc, f"STREAM.INFO.{name}")
        config = {key: value for key, value in info["config"].items() if key != "metadata"}
        kept = config["storage"] == "file"
        rows.append({"stream": config, "last": info["state"]["last_seq"] if kept else 0})
        at = 0
        while kept:
            found = await _ask(nc, f"STREAM.MSG.GET.{name}", seq=at + 1, next_by_subj=">")
            if "message" not in found:
                break
            message = found["message"]
            at = message["seq"]
            row = {"seq": at, "subject": message["subject"]}
            if message.get("hdrs"):
                row["headers"] = base64.b64decode(message["hdrs"]).decode()
            rows.append(row | {"data": base64.b64decode(message.get("data", "")).decode()})
    await nc.close()
    return rows


async def load(url: str, rows: Sequence[dict[str, Any]]) -> None:
    """Make the streams that rows describe on a server that has none."""
    nc = await nats.connect(url)
    config: dict[str, Any] = {}
    for number, row in enumerate(rows):
        if "stream" in row:
            config, at = row["stream"], 0
            await _ask(nc, f"STREAM.CREATE.{config['name']}", **config)
            last, filler = row["last"], config["subjects"][0].replace(">", FILLER)
        else:
            for _ in range(at + 1, row["seq"]):
                await nc.publish(filler, b"")
            await nc.publish(row["subject"], row["data"].encode())
            at = row["seq"]
        if number + 1 == len(rows) or "stream" in rows[number + 1]:
            for _ in range(at, last):
                await nc.publish(filler, b"")
            await _until_stored(nc, config["name"], last)
            await _ask(nc, f"STREAM.PURGE.{config['name']}", filter=filler)
    await nc.close()


async def _until_stored(nc: Client, stream: str, last: int) -> None:
    await nc.flush()
    found = -1
    with anyio.fail_after(_DEADLINE_S):
        while found < last:
            found = (await _ask(nc, f"STREAM.INFO.{stream}"))["state"]["last_seq"]
    assert found == last


async def _ask(nc: Client, what: str, **asked: Any) -> dict[str, Any]:
    answer = await nc.request(f"{API}.{what}", json.dumps(asked).encode(), timeout=10)
    found: dict[str, Any] = json.loads(answer.data)
    if "error" in found and found["error"].get("err_code") != _NO_MESSAGE:
        raise AssertionError(f"{what}: {found['error']}")
    return found
