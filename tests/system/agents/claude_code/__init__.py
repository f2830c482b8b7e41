"""The Claude Code driver starts and records."""
