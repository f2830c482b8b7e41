"""How servers learn about accounts: from their configuration, and while they run."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from bullpen.errors import Refused, Unavailable
from bullpen.fleet.auth.keys import claims_of
from bullpen.fleet.auth.own_teams import give_own_streams
from bullpen.fleet.auth.vault import Vault
from bullpen.fleet.servers.connect import connected

ANSWER_S = 5.0

_PING = "$SYS.REQ.SERVER.PING"
_UPDATE = "$SYS.REQ.CLAIMS.UPDATE"
_DELETE = "$SYS.REQ.CLAIMS.DELETE"
_DONE = 200


@dataclass(frozen=True, slots=True)
class Pushed:
    """What servers were told: how many of them, and about which accounts."""

    servers: tuple[str, ...]
    accounts: tuple[str, ...]
    removed: tuple[str, ...]
    waiting: tuple[str, ...] = ()
    """The teams of bound keys whose streams could not be created yet."""


def include_text(directory: Path, *, resolver: Path) -> str:
    """Return the configuration that makes a server accept the keys of a folder.

    `resolver` is a folder of this server alone, in which it keeps the accounts it was told about.
    It contains no secrets, only what was signed. Raises NotFound if the folder has no operator.
    """
    vault = Vault(directory)
    accounts = vault.accounts()
    system, *_ = accounts
    lines = [
        f"operator: {vault.operator_jwt()}",
        f"system_account: {system}",
        "resolver {",
        "  type: full",
        f"  dir: {json.dumps(str(resolver))}",
        "  allow_delete: true",
        '  interval: "2m"',
        "}",
        "resolver_preload {",
        *(f"  {public}: {text}" for public, text in accounts.items()),
        "}",
    ]
    return "\n".join(lines) + "\n"


async def push(vault: Vault, url: str, *, ca: str | None = None) -> Pushed:
    """Tell running servers about every account, and to forget the removed ones.

    Servers disconnect clients whose keys were revoked. A server that is down learns it from the
    others when it is back. Raises Unavailable if not every server of the cluster confirmed,
    Refused if one did not accept it.
    """
    accounts = vault.accounts()
    known = [*accounts.values()]
    # In this order: the accounts of keys import from those of tenants.
    orders = [(_UPDATE, text) for text in known]
    removal = vault.removal_order()
    if removal is not None:
        orders.append((_DELETE, removal))
    async with connected(url, creds=str(vault.push_creds), ca=ca) as client:
        count = await _server_count(client)
        taken = [await _tell(client, *order, count) for order in orders]
    everywhere = set.intersection(*taken)
    if len(everywhere) < count:
        raise Unavailable(
            f"Only {len(everywhere)} of {count} servers have the current keys "
            f"({', '.join(sorted(everywhere)) or 'none'}).",
            remedy="Start the other servers: they then get the keys. To make sure, run: bullpen "
            "auth push",
        )
    return Pushed(
        tuple(sorted(everywhere)),
        tuple(str(claims_of(text)["name"]) for text in known),
        tuple(vault.removed_accounts()),
        tuple(await give_own_streams(vault, url, ca=ca)),
    )


async def _server_count(client: Client) -> int:
    """Return how many servers there are, according to one of them."""
    try:
        answer = await client.request(_PING, b"", timeout=ANSWER_S)
        return max(1, int(json.loads(answer.data)["statsz"].get("active_servers", 1)))
    except (TimeoutError, ValueError, KeyError, TypeError):
        raise Unavailable(
            "The servers did not say how many there are.",
            remedy="Check that they are configured with this operator: bullpen auth config",
        ) from None


async def _tell(client: Client, subject: str, text: str, count: int) -> set[str]:
    """Return the names of the servers that accepted an order in time."""
    inbox = client.new_inbox()
    answers: asyncio.Queue[Msg] = asyncio.Queue()
    subscription = await client.subscribe(inbox, cb=answers.put)
    taken: set[str] = set()
    try:
        await client.publish(subject, text.encode(), reply=inbox)
        async with asyncio.timeout(ANSWER_S):
            while len(taken) < count:
                taken.add(_taken((await answers.get()).data))
    except TimeoutError:
        return taken
    finally:
        await subscription.unsubscribe()
    return taken


def _taken(data: bytes) -> str:
    answer: dict[str, Any] = json.loads(data)
    name = str((answer.get("server") or {}).get("name", "?"))
    error = answer.get("error")
    if error or (answer.get("data") or {}).get("code") != _DONE:
        why = (error or {}).get("description", "it gave no reason")
        raise Refused(
            f"Server {name} did not accept an account: {why}.",
            reason="not_taken",
            remedy="Check that it is configured with this operator: bullpen auth config",
        )
    return name
