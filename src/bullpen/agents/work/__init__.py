"""The work on a task: its worktree, its checks and its completion."""
