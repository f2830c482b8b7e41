"""The driver keeps the contract of drivers."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Any

import anyio
import pytest
from bullpen_parrot import Answer, Parrot

from bullpen.protocol.agent import AgentSpec
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_contract import DriverContract


class ParrotPuppet:
    """A model that gives prepared answers, in order."""

    def __init__(self, folder: Path) -> None:
        self.spec = AgentSpec.new(driver="parrot", backend="in-process", cwd=str(folder))
        self.env = {"PATH": os.environ["PATH"]}
        self._answers: deque[Answer | Exception | None] = deque()
        self._asked: list[str] = []

    def driver(self) -> Parrot:
        return Parrot(self.spec, self.env, self._ask)

    async def _ask(self, text: str) -> Answer:
        self._asked.append(text)
        answer = self._answers.popleft()
        while answer is None:
            await anyio.sleep_forever()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def say(self, text: str) -> None:
        self._answers.append(Answer(text))

    def use_tool(self, name: str, tool_input: dict[str, Any], *, saying: str = "") -> None:
        self._answers.append(Answer(saying, name, tool_input))

    def fail(self, cause: str) -> None:
        self._answers.append(ConnectionError(cause))

    def hang(self) -> None:
        self._answers.append(None)

    def then(self) -> None:
        pass

    def requests(self, desk: RecordingDesk) -> list[str]:
        return self._asked

    def tokens(self, desk: RecordingDesk) -> int | None:
        return None


class TestParrot(DriverContract):
    @pytest.fixture
    def puppet(self, tmp_path: Path) -> ParrotPuppet:
        return ParrotPuppet(tmp_path)
