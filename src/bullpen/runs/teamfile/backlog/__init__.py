"""Backlogs: tasks from lists, folders and commands."""
