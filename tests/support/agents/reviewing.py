"""Reviewers for tests: scripted agents in processes of their own, started as reviewers are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bullpen.protocol.task import Check

ADD = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"


def verdict(word: str, summary: str = "", *comments: Mapping[str, Any]) -> str:
    """What a reviewer says that keeps to the form. The team has the token as its name."""
    said = {"verdict": word, "summary": summary, "comments": list(comments)}
    return f"I have read it.\n\nVERDICT {{team}}\n{json.dumps(said)}"


def say(text: str) -> str:
    """A step that says something."""
    return f"{{say = {json.dumps(text)}}}"


USED = "{usage = {input_tokens = 1000, output_tokens = 50, cost_usd = 0.25}}"


def reviewer(file: Path, *turns: str | Sequence[str], **more: Any) -> Check:
    """A review by a scripted agent that says these texts, or takes these steps, turn by turn."""
    lines = []
    for turn in turns:
        steps = [USED, say(turn)] if isinstance(turn, str) else turn
        lines.append(f"[[agents.reviewer.turns]]\nsteps = [{', '.join(steps)}]\n")
    file.write_text("\n".join(lines) or "[agents.reviewer]\n", "utf-8")
    fields = {"name": "review", "by": "scripted", "run": str(file), **more}
    return Check.new(kind="review", **fields)
