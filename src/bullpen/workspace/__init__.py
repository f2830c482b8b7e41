"""Git worktrees for agents: created, kept safe and merged. Uses plain `git`."""
