"""Whoever makes a worktree is killed."""
