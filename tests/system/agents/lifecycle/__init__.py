"""Agents start, work, are watched and stop."""
