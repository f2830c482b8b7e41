"""The driver `claude-code`: Claude Code as a teammate, through its own team files and hooks."""
