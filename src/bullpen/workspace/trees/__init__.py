"""The worktree or clone of an agent, from plan to ready."""
