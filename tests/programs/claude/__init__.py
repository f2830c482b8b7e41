"""A real Claude Code leads, and our members join it."""
