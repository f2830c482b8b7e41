"""Projects whose files ask for something, for tests of trust."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bullpen.protocol.agent import AgentSpec
from support.offices import Place


def settings(place: Place, told: object) -> Path:
    path = place.project / ".claude/settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


def role(place: Place, front: str) -> None:
    path = place.project / ".claude/agents/reviewer.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: reviewer\n{front}---\nReview.\n", encoding="utf-8")


def stop_hook(command: str) -> dict[str, Any]:
    return {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}


ALLOWING = {"permissions": {"allow": ["Bash(ls:*)"], "deny": ["Bash(rm:*)"]}}


async def spec(place: Place, **fields: Any) -> AgentSpec:
    return await place.spec("[agents.alice]\n", **{"mode": None, **fields})
