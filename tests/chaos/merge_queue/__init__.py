"""The merge queue is killed at any step."""
