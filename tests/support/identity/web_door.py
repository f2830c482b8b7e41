"""Rows of the dashboard: every form, sent by everybody who can reach the port."""

from __future__ import annotations

import httpx2

from support.doors.web_stage import Served

from .cast import Identity
from .rows import Row, Seen, Way

FORMS = {
    "send": {"to": "bob", "text": "Hello."},
    "assign": {"id": "5", "to": "bob"},
    "approve": {"id": "first"},
    "deny": {"id": "second"},
    "comment": {"to": "bob", "path": "a.py", "line": "3", "text": "Why?"},
    "add-task": {"subject": "Another"},
    # Nobody has that name, so that nothing starts.
    "spawn": {"name": "dora", "prompt": "Help.", "like": "nobody"},
    "interrupt": {"name": "alice"},
    "mode": {"name": "alice", "mode": "plan"},
    "budget": {"usd": "5"},
    # Without the tick that it is meant.
    "stop": {"name": "alice"},
    "finish": {"summary": "Done."},
}
"""The actions of the dashboard, with fields."""

_REFUSED: tuple[tuple[Identity, Way], ...] = (
    (Identity.NOBODY, "own name"),
    (Identity.READ_ONLY, "own name"),
    (Identity.PERSON, "no form"),
    (Identity.PERSON, "other site"),
)


def rows() -> list[Row]:
    """Those that are refused first: they leave the team as it is."""
    refused = [Row("web", what, who, way, "refused") for what in FORMS for who, way in _REFUSED]
    return [*refused, *(Row("web", what, Identity.PERSON, "own name", "let in") for what in FORMS)]


async def perform(row: Row, stage: Served) -> Seen:
    """Send a form."""
    pending = [request.id for request in await stage.team.approvals.pending()]
    known = {"first": pending[0], "second": pending[-1]}
    fields = {key: known.get(value, value) for key, value in FORMS[row.what].items()}
    headers = {}
    if row.identity is Identity.READ_ONLY:
        headers["Authorization"] = f"Bearer {stage.tokens.looking}"
    elif row.identity is Identity.PERSON and row.way != "no form":
        headers["Authorization"] = f"Bearer {stage.tokens.acting}"
    if row.way == "other site":
        headers["Origin"] = "http://evil.example"
    before = len(await stage.team.events())
    async with httpx2.AsyncClient(base_url=stage.url, timeout=10) as client:
        if row.way == "no form":
            await client.get(f"/?token={stage.tokens.acting}")
        answer = await client.post(f"/act/{row.what}", data=fields, headers=headers)
    new = (await stage.team.events())[before:]
    refused = "not_a_person" if answer.status_code in (401, 403) else None
    return Seen(row, refused, bool(new), frozenset(event.actor for event in new))
