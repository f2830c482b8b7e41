"""Starts a task in a worktree, and hands in its work."""
