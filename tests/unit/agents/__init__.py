"""Agents, as far as they need no process."""
