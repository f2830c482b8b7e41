"""Removes worktrees without losing their content."""
