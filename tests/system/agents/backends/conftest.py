"""Fixtures of this folder."""

from __future__ import annotations

from support.agents.tmux_fixtures import tmux_folder, tmux_server, tmux_socket

__all__ = ["tmux_folder", "tmux_server", "tmux_socket"]
