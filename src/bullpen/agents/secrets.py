"""Secrets: which values they are, and text without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Redactor:
    """Takes the secrets of one environment, and whatever looks like a key, out of what is kept."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def text(self, text: str) -> str:
        """The text without secrets."""
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without secrets in any of its texts."""
        return value
