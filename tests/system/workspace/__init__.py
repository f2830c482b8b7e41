"""Worktrees, merges and a shared tree with real git."""
