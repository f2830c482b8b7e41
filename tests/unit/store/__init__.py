"""Stores in one process."""
