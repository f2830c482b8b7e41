"""The parts of the Claude Code driver."""
