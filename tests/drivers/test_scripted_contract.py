"""The scripted driver keeps the driver contract."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.drivers.base import Driver
from bullpen.agents.drivers.scripted import make
from bullpen.protocol.agent import AgentSpec
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_contract import DriverContract, Puppet


class ScriptPuppet:
    """A script that is written while it is told; a turn ends where a model's would."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "script.toml"
        self._turns: list[list[dict[str, Any]]] = [[]]
        self.spec = AgentSpec.new(
            driver="scripted", backend="in-process", cwd=str(folder), script="script.toml"
        )
        self.env: Mapping[str, str] = {"PATH": os.environ["PATH"]}

    def driver(self) -> Driver:
        turns = [
            "[[agents.ann.turns]]\nsteps = [" + ", ".join(map(_inline, steps)) + "]\n"
            for steps in self._turns
            if steps
        ]
        self._script.write_text("\n".join(turns), encoding="utf-8")
        return make(self.spec)

    def say(self, text: str) -> None:
        self._add({"say": text})
        self.then()

    def use_tool(self, name: str, tool_input: dict[str, Any], *, saying: str = "") -> None:
        if saying:
            self._add({"say": saying})
        self._add({"tool": name, "input": tool_input})

    def fail(self, cause: str) -> None:
        self._add({"fail": cause})
        self.then()

    def hang(self) -> None:
        self._add({"hang": True})
        self.then()

    def then(self) -> None:
        self._turns.append([])

    def requests(self, desk: RecordingDesk) -> list[str]:
        return [data["text"] for kind, data in desk.records if kind == "request"]

    def _add(self, step: dict[str, Any]) -> None:
        self._turns[-1].append(step)


def _inline(value: Any) -> str:
    """A value of JSON as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(each)}" for key, each in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


class TestScripted(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> Puppet:
        return ScriptPuppet(tmp_path)
