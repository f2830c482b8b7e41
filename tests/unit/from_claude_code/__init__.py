"""Runs every row that docs/from-claude-code.md calls the same."""
