"""Finds and repairs damage in a home."""
