"""Hooks: the user's commands, and when each of them runs."""
