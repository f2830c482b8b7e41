"""Hostile command lines and paths."""
