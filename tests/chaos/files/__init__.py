"""The file store is killed at any step."""
