"""Fixtures of this folder."""

from __future__ import annotations

from support.git.merge_queue_fixtures import _settings

__all__ = ["_settings"]
