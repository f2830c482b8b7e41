"""Checks and the completion of tasks."""
