"""Reads with credentials for certain teams: every request names its subject.

The servers check the subject of a request, not its content. A batched read names its subject in its
content, so it cannot be allowed for some teams only. A short-lived consumer can.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.errors import Unavailable
from bullpen.store.nats.client.api_requests import ApiError, NoAnswer, StoredRow, api

_INACTIVE_NS = 1_000_000_000
_SEQUENCE_TOKEN = 5


class BoundReader:
    """Reads many messages of one subject through a consumer that lives as long as the read."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def rows(
        self,
        stream: str,
        subject: str,
        first: int,
        *,
        timeout_s: float,
        limit: int | None = None,
    ) -> list[StoredRow]:
        """Return the messages of a subject, starting at a sequence. Raises NoAnswer."""
        start = {"deliver_policy": "by_start_sequence", "opt_start_seq": max(first, 1)}
        return await self._read(stream, subject, start, timeout_s, limit)

    async def last_rows(
        self, stream: str, wanted: Sequence[str], *, timeout_s: float
    ) -> list[StoredRow]:
        """Return the last message of every matching subject. Raises NoAnswer."""
        last = {"deliver_policy": "last_per_subject"}
        return [
            row for subject in wanted for row in await self._read(stream, subject, last, timeout_s)
        ]

    async def _read(
        self,
        stream: str,
        subject: str,
        start: dict[str, Any],
        timeout_s: float,
        limit: int | None = None,
    ) -> list[StoredRow]:
        name, inbox = f"r{secrets.token_hex(8)}", self._nc.new_inbox()
        config = {
            "name": name,
            "filter_subject": subject,
            "deliver_subject": inbox,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _INACTIVE_NS,
            **start,
        }
        arrived: asyncio.Queue[Msg] = asyncio.Queue()

        async def take(message: Msg) -> None:
            arrived.put_nowait(message)

        try:
            subscription = await self._nc.subscribe(inbox, cb=take)
            try:
                ask = {"stream_name": stream, "config": config}
                call = f"CONSUMER.CREATE.{stream}.{name}.{subject}"
                made = await api(self._nc, call, ask, timeout_s=timeout_s)
                rows: list[StoredRow] = []
                # What it has delivered meanwhile is no longer pending.
                known = int(made["num_pending"]) + int(made["delivered"]["consumer_seq"])
                while len(rows) < (known if limit is None else min(known, limit)):
                    async with asyncio.timeout(timeout_s):
                        message = await arrived.get()
                    sequence = int(message.reply.split(".")[_SEQUENCE_TOKEN])
                    rows.append(StoredRow(sequence, message.subject, message.data))
                return rows
            finally:
                await subscription.unsubscribe()
        except (nats_errors.Error, OSError, TimeoutError, ApiError, Unavailable) as error:
            raise NoAnswer(str(error) or type(error).__name__) from None
        except (KeyError, IndexError, ValueError):
            raise NoAnswer("the answer cannot be read") from None
