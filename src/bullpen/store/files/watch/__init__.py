"""Notices changes to a team's files."""
