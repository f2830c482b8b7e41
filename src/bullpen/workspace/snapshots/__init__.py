"""Snapshots: commits that save what exists only in a worktree."""
