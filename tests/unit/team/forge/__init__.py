"""The task list and its rules."""
