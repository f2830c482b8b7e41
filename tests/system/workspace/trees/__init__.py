"""Worktrees, clones and snapshots."""
