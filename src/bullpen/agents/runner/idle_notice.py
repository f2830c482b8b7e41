"""The idle notice that the lead gets after a teammate's turn."""

from __future__ import annotations

from bullpen.agents.runner.desk import RunnerDesk
from bullpen.protocol.clock import iso
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification

_RESULT_CHARACTERS_MAX = 1_000_000


async def idle_notice(
    desk: RunnerDesk, text: str, failure: str | None, *, now_ms: int
) -> IdleNotification:
    """How the turn ended, the last words, and which members it wrote to."""
    wrote = desk.wrote_to.items()
    peers = "; ".join(f"[to {to}] {what}" for to, what in wrote if to != LEAD)
    more = any(entry.state == "stored" for entry in await desk.unread())
    reason = "failed" if failure is not None else None if more else "available"
    return IdleNotification.new(
        sender=desk.agent,
        timestamp=iso(now_ms),
        idle_reason=reason,
        summary=peers or None,
        result=_bounded(desk, text) or None,
        failure_reason=failure,
    )


def _bounded(desk: RunnerDesk, text: str) -> str:
    if len(text) <= _RESULT_CHARACTERS_MAX:
        return text
    path = desk.folder / "final.txt"
    path.write_text(text, "utf-8")
    left_out = len(text) - _RESULT_CHARACTERS_MAX
    return f"{text[:_RESULT_CHARACTERS_MAX]}\n[{left_out} more characters: {path}]"
