"""Agents of a team: operations and rules."""
