"""Promises in real git, with the real merge queue."""
