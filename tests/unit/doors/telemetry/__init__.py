"""Traces, metrics and logs of a team, told from its log."""
